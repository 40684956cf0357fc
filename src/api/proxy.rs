//! Which requests go through a proxy: the rules of Node.js 24 (`NODE_USE_ENV_PROXY=1`), except that loopback never does and
//! plain HTTP never does. Whether Node.js itself would look at the variables is decided by the caller. Opens no connection.

use std::net::{IpAddr, Ipv4Addr};

use url::{Host, Url};

use super::resolve::is_localhost;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    Proxy(Url),
    /// A proxy was asked for whose URL makes no sense. Going around it could be what its owner wanted to prevent.
    Impossible,
}

#[derive(Clone, Debug)]
pub(super) struct Routes {
    proxy: Route,
    bypass: Vec<String>,
}

impl Routes {
    pub(super) fn new(https_proxy: Option<&str>, no_proxy: Option<&str>) -> Self {
        let proxy = match https_proxy {
            // Node.js ignores other kinds of proxies, and what is empty.
            Some(text) if text.starts_with("http://") || text.starts_with("https://") => match Url::parse(text) {
                Ok(url) if !text.contains(['\r', '\n']) => Route::Proxy(url),
                _ => Route::Impossible,
            },
            _ => Route::Direct,
        };
        let bypass = no_proxy
            .filter(|list| !list.is_empty())
            .map_or_else(Vec::new, |list| list.split(',').map(|entry| entry.trim().to_lowercase()).collect());
        Self { proxy, bypass }
    }

    /// No request takes a proxy.
    pub(super) fn are_direct(&self) -> bool {
        self.proxy == Route::Direct
    }

    pub(super) fn of(&self, url: &Url) -> Route {
        let Some(host) = url.host() else { return Route::Direct };
        if url.scheme() != "https" || is_loopback(&host) || self.bypasses(&host, url.port_or_known_default()) {
            return Route::Direct;
        }
        self.proxy.clone()
    }

    fn bypasses(&self, host: &Host<&str>, port: Option<u16>) -> bool {
        // Without brackets, as Node.js compares it; entries with brackets are accepted all the same.
        let name = match host {
            Host::Domain(name) => name.to_lowercase(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let with_port = port.map(|port| format!("{name}:{port}"));
        self.bypass.iter().any(|entry| {
            let plain = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
            entry == "*"
                || plain == name
                || Some(entry.as_str()) == with_port.as_deref()
                || entry.strip_prefix('.').is_some_and(|suffix| is_within(&name, suffix))
                || entry.strip_prefix('*').is_some_and(|suffix| suffix.starts_with('.') && name.ends_with(suffix))
                || matches!(host, Host::Ipv4(address) if is_in_range(*address, entry))
        })
    }
}

fn is_within(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// `192.0.2.1-192.0.2.9`.
fn is_in_range(address: Ipv4Addr, entry: &str) -> bool {
    let parse = |text: &str| text.trim().parse::<Ipv4Addr>().ok();
    entry
        .split_once('-')
        .and_then(|(first, last)| Some((parse(first)?, parse(last)?)))
        .is_some_and(|(first, last)| (first..=last).contains(&address))
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_localhost(name),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => IpAddr::V6(*address).to_canonical().is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(no_proxy: &str, url: &str) -> bool {
        let routes = Routes::new(Some("http://proxy.test:3128"), Some(no_proxy));
        routes.of(&Url::parse(url).unwrap()) != Route::Direct
    }

    #[test]
    fn only_https_to_other_machines_takes_the_proxy() {
        assert!(proxied("", "https://api.test"));
        for url in [
            "http://api.test",
            "https://localhost",
            "https://LOCALHOST.:8443/",
            "https://127.0.0.1",
            "https://127.9.8.7:1",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
        ] {
            assert!(!proxied("", url), "{url}");
        }
    }

    #[test]
    fn no_proxy_is_read_as_node_reads_it() {
        let cases = [
            ("*", "https://api.test", false),
            ("api.test", "https://api.test", false),
            ("API.test", "https://api.TEST", false),
            ("test", "https://api.test", true),
            ("other.test, api.test", "https://api.test", false),
            ("other.test api.test", "https://api.test", true),
            ("api.test:443", "https://api.test", false),
            ("api.test:8443", "https://api.test", true),
            ("api.test:8443", "https://api.test:8443", false),
            (".test", "https://api.test", false),
            (".api.test", "https://api.test", false),
            (".api.test", "https://my-api.test", true),
            ("*.test", "https://api.test", false),
            ("*.api.test", "https://api.test", true),
            ("*test", "https://api.test", true),
            ("192.0.2.7", "https://192.0.2.7", false),
            ("192.0.2.0/24", "https://192.0.2.7", true),
            ("192.0.2.1-192.0.2.9", "https://192.0.2.7", false),
            ("192.0.2.1 - 192.0.2.9", "https://192.0.2.7", false),
            ("192.0.2.1-192.0.2.6", "https://192.0.2.7", true),
            ("2001:db8::1", "https://[2001:db8::1]", false),
            ("[2001:db8::1]", "https://[2001:db8::1]", false),
            (",,", "https://api.test", true),
        ];
        for (no_proxy, url, expected) in cases {
            assert_eq!(proxied(no_proxy, url), expected, "{no_proxy} {url}");
        }
    }

    #[test]
    fn other_kinds_of_proxies_are_ignored_and_broken_ones_are_impossible() {
        let url = Url::parse("https://api.test").unwrap();
        for text in ["", "socks5://proxy.test", "proxy.test:3128", "nonsense"] {
            assert!(Routes::new(Some(text), None).are_direct(), "{text}");
        }
        for text in ["http://", "http://a b", "https://[::1", "http://proxy.test:99999", "http://proxy.test\n:1"] {
            let routes = Routes::new(Some(text), None);
            assert_eq!(routes.of(&url), Route::Impossible, "{text}");
            assert_eq!(routes.of(&Url::parse("https://localhost").unwrap()), Route::Direct, "{text}");
        }
    }
}
