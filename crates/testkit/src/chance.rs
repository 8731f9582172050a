//! Repeatable chance for checks and benchmarks; never good enough for a secret.

/// A stream of numbers that follows from its seed alone (`SplitMix64`).
#[derive(Clone, Copy, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream that follows from a text, so that the same text draws the same again.
    #[must_use]
    pub fn of(text: &str) -> Self {
        // FNV-1a: short, and different for texts that differ in one character.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `end`; 0 where there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.draw() % end }
    }

    /// Brings a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(last);
            list.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again() {
        let draw = |mut chance: Chance| [chance.below(100), chance.below(100), chance.below(100)];
        assert_eq!(draw(Chance::new(7)), draw(Chance::new(7)));
        assert_ne!(draw(Chance::of("a")), draw(Chance::of("b")));
    }

    #[test]
    fn a_shuffled_list_holds_what_it_held() {
        let mut list: Vec<u32> = (0..50).collect();
        Chance::new(3).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
