//! The address that NCCL_COMM_ID names. Processes that have the same one get equal unique ids, and rank 0 of the communicator listens there.
use crate::failure::{Failure, Outcome};
use crate::settings::settings;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The address, if the variable is set.
pub(super) fn address() -> Outcome<Option<SocketAddr>> {
    let Some(text) = &settings().comm_id else { return Ok(None) };
    let wrong = |why: String| Failure::argument(format!("NCCL_COMM_ID={}: {why}", text.escape_debug()));
    parse(text).map(Some).map_err(wrong)
}

/// `<ipv4>:<port>`, `[<ipv6>]:<port>` or `<host>:<port>`.
fn parse(text: &str) -> Result<SocketAddr, String> {
    let form = || "it is not one of <ipv4>:<port>, [<ipv6>]:<port> and <host>:<port>".to_owned();
    let (host, port) = text.trim().rsplit_once(':').ok_or_else(form)?;
    let port: u16 = port.parse().map_err(|_| form())?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(form)?,
        None if host.contains(':') => return Err("the address of IPv6 needs brackets: [<ipv6>]:<port>".to_owned()),
        None => host,
    };
    if host.is_empty() {
        return Err(form());
    }
    if port == 0 {
        return Err("0 is not a port at which others could find rank 0".to_owned());
    }
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("the host has no address: {error}"))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    let address = *first.ok_or("the host has no address")?;
    let unusable = match address.ip() {
        ip if ip.is_unspecified() => Some("stands for all addresses of a machine, and the others need one of rank 0's"),
        ip if ip.is_multicast() => Some("is an address of a group of machines"),
        IpAddr::V4(ip) if ip.is_broadcast() => Some("is an address of all machines"),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some("means something on one link only"),
        _ => None,
    };
    unusable.map_or(Ok(address), |why| Err(format!("{} {why}", address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_read() {
        let read = |text: &str| parse(text).map(|address| address.to_string());
        assert_eq!(read("10.1.2.3:29500"), Ok("10.1.2.3:29500".to_owned()));
        assert_eq!(read(" [::1]:7 "), Ok("[::1]:7".to_owned()));
        assert!(read("localhost:29500").is_ok_and(|address| address.ends_with(":29500")));
    }

    #[test]
    fn what_is_no_usable_address_is_refused_with_the_reason() {
        let why = |text: &str| parse(text).unwrap_err();
        for text in ["", "node1", ":29500", "node1:", "node1:x", "node1:70000", "[::1:29500", "[]:1"] {
            assert!(why(text).contains("not one of"), "{text}: {}", why(text));
        }
        assert!(why("::1:29500").contains("brackets"));
        assert!(why("10.0.0.1:0").contains("not a port"));
        assert!(why("0.0.0.0:80").contains("all addresses of a machine"));
        assert!(why("[fe80::1]:80").contains("one link"));
        assert!(why("224.0.0.1:80").contains("group"));
        assert!(why("no host:80").contains("has no address"));
    }
}
