//! The address under which processes on other machines reach this one.
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// An interface of this machine and an address of it.
type Interface = (String, IpAddr);

/// The interfaces that NCCL_SOCKET_IFNAME names: beginnings of names, after `^` those that are left out, after `=` whole names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    names: Vec<String>,
    excludes: bool,
    whole: bool,
}

impl Choice {
    fn parse(text: &str) -> Self {
        let (excludes, rest) = match text.trim().strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let (whole, rest) = match rest.strip_prefix('=') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let names = rest.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { names, excludes, whole }
    }

    fn admits(&self, interface: &str) -> bool {
        let is = |name: &String| if self.whole { interface == name } else { interface.starts_with(name.as_str()) };
        self.names.iter().any(is) != self.excludes
    }
}

/// The address under which this process is reached, chosen from those of all interfaces. Without a choice, an address that other
/// machines can reach is preferred to that of the loopback device, and containers' bridges come last, as in NCCL.
fn chosen(interfaces: &[Interface], wanted: Option<&str>) -> Option<IpAddr> {
    let choice = wanted.map(Choice::parse);
    let admitted = interfaces.iter().filter(|(name, _)| choice.as_ref().is_none_or(|choice| choice.admits(name)));
    let last_resort = |(name, ip): &&Interface| match choice {
        Some(_) => 0,
        None if ip.is_loopback() => 2,
        None => u8::from(name.starts_with("docker")),
    };
    // The addresses of a link mean nothing on another one.
    let usable = admitted.filter(|(_, ip)| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()));
    usable.min_by_key(|one| (last_resort(one), one.1.is_ipv6())).map(|(_, ip)| *ip)
}

/// Listens for processes on other machines.
pub(super) fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let all = if_addrs::get_if_addrs()?;
    let interfaces: Vec<Interface> = all.into_iter().map(|one| (one.name.clone(), one.ip())).collect();
    let wanted = std::env::var("NCCL_SOCKET_IFNAME").ok().filter(|text| !text.trim().is_empty());
    let ip = chosen(&interfaces, wanted.as_deref()).ok_or_else(|| {
        let names: Vec<&str> = interfaces.iter().map(|(name, _)| name.as_str()).collect();
        let text = format!("NCCL_SOCKET_IFNAME names none of the interfaces {}", names.join(", "));
        io::Error::new(io::ErrorKind::AddrNotAvailable, text)
    })?;
    let listener = TcpListener::bind(SocketAddr::new(ip, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Vec<Interface> {
        let all = [
            ("lo", "127.0.0.1"),
            ("docker0", "172.17.0.1"),
            ("eth0", "fe80::1"),
            ("eth0", "10.0.0.5"),
            ("ib0", "10.1.0.5"),
        ];
        all.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap())).to_vec()
    }

    #[test]
    fn interfaces_are_chosen_as_nccl_chooses_them() {
        let address = |wanted: Option<&str>| chosen(&interfaces(), wanted).map(|ip| ip.to_string());
        assert_eq!(address(None).as_deref(), Some("10.0.0.5"));
        assert_eq!(address(Some("ib")).as_deref(), Some("10.1.0.5"));
        assert_eq!(address(Some("^eth,lo,docker")).as_deref(), Some("10.1.0.5"));
        assert_eq!(address(Some("=ib")), None);
        assert_eq!(address(Some("=ib0")).as_deref(), Some("10.1.0.5"));
        assert_eq!(address(Some("lo")).as_deref(), Some("127.0.0.1"));
        assert_eq!(address(Some("docker")).as_deref(), Some("172.17.0.1"));
    }

    #[test]
    fn without_a_network_the_loopback_device_is_left() {
        let lonely = [("lo".to_owned(), "127.0.0.1".parse().unwrap())];
        assert_eq!(chosen(&lonely, None), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(chosen(&[], None), None);
        let bridge = [interfaces()[0].clone(), interfaces()[1].clone()];
        assert_eq!(chosen(&bridge, None), Some("172.17.0.1".parse().unwrap()));
    }
}
