//! Any settings → a configuration or a fault, never a panic. What is accepted is within its limits, is a fixed point (read
//! again, it says the same), and is nothing that a key could leak by.
#![no_main]

use createos_native::config::{Config, MAX_TIMEOUT_MS, RawConfig, Setting, timeout_ms};
use createos_native_fuzz::dice::Dice;
use libfuzzer_sys::fuzz_target;
use url::{Host, Url};

fn setting(dice: &mut Dice) -> Setting {
    match dice.byte() {
        0..48 => Setting::Absent,
        48..64 => Setting::Bool(dice.below(2) == 1),
        64..80 => Setting::Number(dice.byte().into()),
        80..96 => Setting::Number(f64::from(MAX_TIMEOUT_MS) + f64::from(dice.byte()) - 128.0),
        96..112 => {
            let mut bits = [0; 8];
            bits.fill_with(|| dice.byte());
            Setting::Number(f64::from_le_bytes(bits))
        }
        112..128 => Setting::Text(format!("http://{}", dice.text())),
        128..144 => Setting::Text(format!("https://{}", dice.text())),
        _ => Setting::Text(dice.text()),
    }
}

fn text(text: &Option<String>) -> Setting {
    text.clone().map_or(Setting::Absent, Setting::Text)
}

fn is_trimmed(text: &str) -> bool {
    // What JavaScript's `trim` removes.
    let white = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\
                 \u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
    !text.is_empty() && !text.starts_with(|c| white.contains(c)) && !text.ends_with(|c| white.contains(c))
}

fn judge(config: &Config, environment_key: Option<&str>) {
    let Config { api_url, api_key, shape, rootfs, region, timeout_ms: timeout, reuse_lease } = config;

    let raw = RawConfig {
        api_url: Setting::Text(api_url.clone()),
        api_key: text(api_key),
        shape: Setting::Text(shape.clone()),
        rootfs: text(rootfs),
        region: text(region),
        timeout_ms: Setting::Number(f64::from(*timeout)),
        reuse_lease: Setting::Bool(*reuse_lease),
    };
    assert!(Config::parse(&raw).as_ref() == Ok(config), "a fixed point");
    let v1 = RawConfig { api_url: Setting::Text(format!("{api_url}/v1/")), ..raw };
    assert!(Config::parse(&v1).as_ref() == Ok(config), "and so it is with the path that it may have");

    assert!((1..=MAX_TIMEOUT_MS).contains(timeout));
    assert!(
        [Some(shape), api_key.as_ref(), rootfs.as_ref(), region.as_ref()]
            .into_iter()
            .flatten()
            .all(|text| { is_trimmed(text) && !text.contains('\0') })
    );

    // Requests are made of the origin and a path, by gluing them together.
    let url = Url::parse(&format!("{api_url}/v1/sandboxes/sb?x=1")).expect("a URL");
    let loopback = match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost",
        Some(Host::Ipv4(ip)) => ip.octets() == [127, 0, 0, 1],
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    assert!(url.scheme() == "https" || (url.scheme() == "http" && loopback), "{api_url}");
    assert_eq!((url.path(), url.query(), url.fragment()), ("/v1/sandboxes/sb", Some("x=1"), None), "{api_url}");
    assert_eq!((url.username(), url.password()), ("", None), "{api_url}");
    assert!(url.has_host() && url.origin().is_tuple(), "{api_url}");
    assert!(!api_url.ends_with('/') && !api_url.contains(['\\', '@', ' ', '\t', '\r', '\n']), "{api_url}");

    if let Ok(key) = config.resolve_key(environment_key) {
        assert!(is_trimmed(&key) && !key.contains(['\r', '\n', '\0']));
        assert!(
            *api_key == Some(key.clone()) || (api_key.is_none() && environment_key.is_some_and(|it| it.contains(&key)))
        );
    }
    let keyless = Config { api_key: None, ..config.clone() };
    assert_eq!(format!("{config:?}"), format!("{keyless:?}"), "a key is nothing to show");
}

fuzz_target!(|input: &[u8]| {
    let dice = &mut Dice::new(input);
    let raw = RawConfig {
        api_url: setting(dice),
        shape: setting(dice),
        timeout_ms: setting(dice),
        reuse_lease: setting(dice),
        api_key: setting(dice),
        rootfs: setting(dice),
        region: setting(dice),
    };
    let environment_key = (dice.below(2) == 1).then(|| dice.text());
    if let Ok(config) = Config::parse(&raw) {
        judge(&config, environment_key.as_deref());
    }
    if let Setting::Number(ms) = raw.timeout_ms {
        assert_eq!(
            timeout_ms(ms).map(f64::from),
            Some(ms).filter(|ms| *ms >= 1.0 && *ms <= 86_400_000.0 && ms.trunc() == *ms)
        );
    }
});
