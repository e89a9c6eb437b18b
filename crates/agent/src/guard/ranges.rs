//! Addresses that need permission: everything that is not a public address of the internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The kind of an address that needs permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// In a private network, or reserved.
    Private(&'static str),
    /// A metadata service, which gives credentials to every client. A rule for a name does not
    /// cover it.
    Metadata(&'static str),
}

use AddressKind::{Metadata, Private};

const V4: &[([u8; 4], u8, AddressKind)] = &[
    ([100, 100, 100, 200], 32, Metadata("a metadata service")),
    ([168, 63, 129, 16], 32, Metadata("a metadata service")),
    ([192, 0, 0, 192], 32, Metadata("a metadata service")),
    ([169, 254, 0, 0], 16, Metadata("a link-local address, where metadata services live")),
    ([0, 0, 0, 0], 8, Private("an address of this machine")),
    ([10, 0, 0, 0], 8, Private("a private network")),
    ([100, 64, 0, 0], 10, Private("a carrier's private network")),
    ([127, 0, 0, 0], 8, Private("this machine")),
    ([172, 16, 0, 0], 12, Private("a private network")),
    ([192, 0, 0, 0], 24, Private("reserved for protocols")),
    ([192, 0, 2, 0], 24, Private("reserved for documentation")),
    ([192, 88, 99, 0], 24, Private("a 6to4 relay")),
    ([192, 168, 0, 0], 16, Private("a private network")),
    ([198, 18, 0, 0], 15, Private("reserved for benchmarks")),
    ([198, 51, 100, 0], 24, Private("reserved for documentation")),
    ([203, 0, 113, 0], 24, Private("reserved for documentation")),
    ([224, 0, 0, 0], 4, Private("a multicast address")),
    ([240, 0, 0, 0], 4, Private("reserved")),
];

const V6: &[([u16; 8], u8, AddressKind)] = &[
    ([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254], 128, Metadata("a metadata service")),
    (
        [0xfe80, 0, 0, 0, 0, 0, 0, 0],
        10,
        Metadata("a link-local address, where metadata services live"),
    ),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Private("an address of this machine")),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, Private("this machine")),
    ([0x0064, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Private("a private NAT64 prefix")),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Private("reserved for protocols")),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, Private("reserved for documentation")),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Private("a 6to4 address")),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Private("reserved for documentation")),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Private("a private network")),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Private("a private network")),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Private("a multicast address")),
];

/// The prefix of public IPv6 addresses. Everything else is unassigned.
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The address that packets reach in the end: an address of version 4 in the clothes of version 6
/// is the former.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, _, _] = v6.segments();
    let carries_v4 = match [a, b, c, d, e, f] {
        // Mapped, translated, and by the well-known prefix of NAT64.
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => true,
        // Compatible, which only `::` and `::1` look like without being it.
        [0, 0, 0, 0, 0, 0] => !(v6.is_unspecified() || v6.is_loopback()),
        _ => false,
    };
    let [.., w, x, y, z] = v6.octets();
    if carries_v4 { IpAddr::V4(Ipv4Addr::new(w, x, y, z)) } else { address }
}

/// Why an address in its plain form needs permission, and the network that it is in; none for a
/// public address.
pub(super) fn kind(plain: IpAddr) -> Option<(IpNet, AddressKind)> {
    match plain {
        IpAddr::V4(address) => V4.iter().find_map(|&(base, length, kind)| {
            let net = Ipv4Net::new_assert(Ipv4Addr::from(base), length);
            net.contains(&address).then_some((IpNet::V4(net), kind))
        }),
        IpAddr::V6(address) => {
            let listed = V6.iter().find_map(|&(base, length, kind)| {
                let net = Ipv6Net::new_assert(Ipv6Addr::from(base), length);
                net.contains(&address).then_some((IpNet::V6(net), kind))
            });
            listed.or_else(|| {
                let whole = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0));
                (!GLOBAL_V6.contains(&address)).then_some((whole, Private("not a public address")))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        for (address, expected) in [
            ("1.1.1.1", None),
            ("8.8.8.8", None),
            ("100.63.255.255", None),
            ("100.128.0.0", None),
            ("172.15.255.255", None),
            ("172.32.0.0", None),
            ("198.17.255.255", None),
            ("198.20.0.0", None),
            ("223.255.255.255", None),
            ("2606:4700:4700::1111", None),
            ("2001:4860:4860::8888", None),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::808:808", None),
            ("0.0.0.0", Some("0.0.0.0/8")),
            ("0.1.2.3", Some("0.0.0.0/8")),
            ("10.0.0.1", Some("10.0.0.0/8")),
            ("100.64.0.1", Some("100.64.0.0/10")),
            ("100.127.255.255", Some("100.64.0.0/10")),
            ("100.100.100.200", Some("100.100.100.200/32")),
            ("127.0.0.1", Some("127.0.0.0/8")),
            ("127.255.255.254", Some("127.0.0.0/8")),
            ("168.63.129.16", Some("168.63.129.16/32")),
            ("169.254.169.254", Some("169.254.0.0/16")),
            ("172.16.0.1", Some("172.16.0.0/12")),
            ("172.31.255.255", Some("172.16.0.0/12")),
            ("192.0.0.8", Some("192.0.0.0/24")),
            ("192.0.2.1", Some("192.0.2.0/24")),
            ("192.88.99.1", Some("192.88.99.0/24")),
            ("192.168.1.1", Some("192.168.0.0/16")),
            ("198.18.0.1", Some("198.18.0.0/15")),
            ("198.19.255.255", Some("198.18.0.0/15")),
            ("198.51.100.1", Some("198.51.100.0/24")),
            ("203.0.113.1", Some("203.0.113.0/24")),
            ("224.0.0.1", Some("224.0.0.0/4")),
            ("255.255.255.255", Some("240.0.0.0/4")),
            ("::", Some("::/128")),
            ("::1", Some("::1/128")),
            ("::2", Some("0.0.0.0/8")),
            ("::127.0.0.1", Some("127.0.0.0/8")),
            ("::ffff:127.0.0.1", Some("127.0.0.0/8")),
            ("::ffff:169.254.169.254", Some("169.254.0.0/16")),
            ("::ffff:0:10.0.0.1", Some("10.0.0.0/8")),
            ("64:ff9b::a00:1", Some("10.0.0.0/8")),
            ("64:ff9b:1::808:808", Some("64:ff9b:1::/48")),
            ("100::1", Some("::/0")),
            ("2001::1", Some("2001::/23")),
            ("2001:10::1", Some("2001::/23")),
            ("2001:db8::1", Some("2001:db8::/32")),
            ("2002:7f00:1::", Some("2002::/16")),
            ("3fff::1", Some("3fff::/20")),
            ("4000::1", Some("::/0")),
            ("5f00::1", Some("::/0")),
            ("fc00::1", Some("fc00::/7")),
            ("fd00::1", Some("fc00::/7")),
            ("fd00:ec2::254", Some("fd00:ec2::254/128")),
            ("fe80::1", Some("fe80::/10")),
            ("fec0::1", Some("fec0::/10")),
            ("ff02::1", Some("ff00::/8")),
        ] {
            let found = kind(plain(address.parse().unwrap())).map(|(net, _)| net.to_string());
            assert_eq!(found.as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn the_standard_library_and_the_clothes_of_version_6_agree() {
        for high in 0..=u16::MAX {
            for low in [0_u16, 0x0201, u16::MAX] {
                let v4 = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
                let verdict = kind(IpAddr::V4(v4));
                let is_special = v4.is_private()
                    || v4.is_loopback()
                    || v4.is_link_local()
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    || v4.is_documentation()
                    || v4.is_unspecified();
                assert!(!is_special || verdict.is_some(), "{v4}");
                for v6 in [
                    v4.to_ipv6_mapped(),
                    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                    Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                ] {
                    assert_eq!(kind(plain(IpAddr::V6(v6))), verdict, "{v6}");
                }
            }
        }
    }
}
