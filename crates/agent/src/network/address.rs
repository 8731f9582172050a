//! Which addresses are the public network's; nothing else is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to somebody out there: not to this machine, its network or a cloud's
/// inside, also where it is wrapped into another one.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = match (a, b) {
        (0 | 10 | 127 | 224..=255, _)
        | (100, 64..=127)
        | (169, 254)
        | (172, 16..=31)
        | (192, 168)
        | (198, 18 | 19) => true,
        (192, 0) => matches!(c, 0 | 2),
        (192, 88) => c == 99,
        (198, 51) => c == 100,
        (203, 0) => c == 113,
        _ => false,
    };
    // A cloud's inside that looks like the outside.
    !special && v4 != Ipv4Addr::new(168, 63, 129, 16)
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    let inner = |high: u16, low: u16| {
        is_public_v4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
    };
    match segments {
        // An address of the older kind, as it is and translated.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            inner(high, low)
        }
        [0x2002, high, low, ..] => inner(high, low),
        // Tunnels, documentation and tests.
        [0x2001, 0..=0x01ff | 0xdb8, ..] | [0x3fff, ..] => false,
        // Only this block is given out.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outside_is_public() {
        let check = |address: &str, expect: bool| {
            assert_eq!(is_public(address.parse().unwrap()), expect, "{address}");
        };
        for public in ["93.184.216.34", "1.1.1.1", "172.32.0.1", "2606:4700::1111"] {
            check(public, true);
        }
        check("::ffff:93.184.216.34", true);
        let inside = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ];
        for address in inside {
            check(address, false);
        }
    }
}
