//! When the process is killed: a list of kills that follows from a seed; it kills nobody itself.

use std::time::Duration;

use aion_testkit::chance::Chance;

/// One kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// At the n-th visit to a named point.
    Point(&'static str, u64),
    /// So many thousandths of the usual time to recover after the start.
    Recovering(u64),
    /// So long after the team works again.
    Working(Duration),
}

/// Every named point of store and runtime.
pub(crate) fn points() -> Vec<&'static str> {
    aion_store::failpoint::POINTS.into_iter().chain(aion_runtime::FAILPOINTS).collect()
}

/// Points that a start passes seldom: only the first visit is sure to come.
const SELDOM: [&str; 8] = [
    "service.opening",
    "service.opened",
    "effects.spawn",
    "store.before_snapshot",
    "store.after_snapshot",
    "store.checkpoint",
    "host.after_start_tool",
    "host.before_finish_tool",
];

/// A list of `kills` kills: a third at points, each of them as often as the others, a fifth while
/// recovering, the rest at any time.
pub(crate) fn kills(kills: usize, chance: &mut Chance) -> Vec<Kill> {
    let points = points();
    let named = kills * 2 / 5;
    let mut order = points.clone();
    chance.shuffle(&mut order);
    let mut list: Vec<Kill> =
        order.iter().cycle().take(named).map(|name| at_point(name, chance)).collect();
    list.extend((0..kills / 5).map(|_| Kill::Recovering(chance.below(1_000))));
    while list.len() < kills {
        list.push(Kill::Working(Duration::from_millis(40 + chance.below(760))));
    }
    chance.shuffle(&mut list);
    list
}

/// A kill at a point, at a visit that is sure to come.
pub(crate) fn at_point(name: &'static str, chance: &mut Chance) -> Kill {
    let visit = if SELDOM.contains(&name) { 1 } else { 1 + chance.below(60) };
    Kill::Point(name, visit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_kills_meet_every_point_twice_and_a_tenth_of_them_recovery() {
        let list = kills(200, &mut Chance::new(1));
        assert_eq!(list.len(), 200);
        for point in points() {
            let times = list.iter().filter(|kill| matches!(kill, Kill::Point(p, _) if *p == point));
            assert!(times.count() >= 2, "{point}");
        }
        let recovering = list.iter().filter(|kill| matches!(kill, Kill::Recovering(_)));
        assert!(recovering.count() >= 20);
    }
}
