//! Raw settings → a valid [`Config`], and the API key that goes with it. Does no I/O: the environment's variables are
//! handed in.

use std::fmt;

use url::Url;

use crate::error::Fault;

pub const DEFAULT_TIMEOUT_MS: u32 = 300_000;
pub const MAX_TIMEOUT_MS: u32 = 86_400_000;

/// One raw setting, as far as its type matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Setting {
    /// Not there, `undefined` or `null`.
    #[default]
    Absent,
    Text(String),
    Number(f64),
    Bool(bool),
}

/// Settings as an operator typed them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawConfig {
    pub api_url: Setting,
    pub api_key: Setting,
    pub shape: Setting,
    pub rootfs: Setting,
    pub region: Setting,
    pub timeout_ms: Setting,
    pub reuse_lease: Setting,
}

/// Settings that can be used. `api_url` is an origin without a trailing slash.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    pub api_url: String,
    pub api_key: Option<String>,
    pub shape: String,
    pub rootfs: Option<String>,
    pub region: Option<String>,
    pub timeout_ms: u32,
    pub reuse_lease: bool,
}

/// Shows everything but the key.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("shape", &self.shape)
            .field("rootfs", &self.rootfs)
            .field("region", &self.region)
            .field("timeout_ms", &self.timeout_ms)
            .field("reuse_lease", &self.reuse_lease)
            .finish_non_exhaustive()
    }
}

/// When a script is staged as a file instead of being an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Staging {
    /// When it is too long for an argument.
    #[default]
    Large,
    /// Always, and then no value of the environment is ever an argument of any process.
    Always,
}

impl Config {
    /// Checks the settings one by one, in the order in which their faults are told.
    pub fn parse(raw: &RawConfig) -> Result<Self, Fault> {
        let api_url = text("apiUrl", &raw.api_url)?.ok_or(Fault::ApiUrlMissing)?;
        let api_url = origin(&api_url)?;
        let shape = text("shape", &raw.shape)?.ok_or(Fault::ShapeMissing)?;
        let timeout_ms = match raw.timeout_ms {
            Setting::Absent => DEFAULT_TIMEOUT_MS,
            Setting::Number(ms) => timeout_ms(ms).ok_or(Fault::SettingTimeout)?,
            _ => return Err(Fault::SettingTimeout),
        };
        let reuse_lease = match raw.reuse_lease {
            Setting::Absent => false,
            Setting::Bool(reuse) => reuse,
            _ => return Err(Fault::SettingReuseLease),
        };
        Ok(Self {
            api_url,
            api_key: text("apiKey", &raw.api_key)?,
            shape,
            rootfs: text("rootfs", &raw.rootfs)?,
            region: text("region", &raw.region)?,
            timeout_ms,
            reuse_lease,
        })
    }

    /// The key of the settings, else that of the environment variable `CREATEOS_API_KEY`. It travels in a header, so
    /// it can hold no line break and no NUL.
    pub fn resolve_key(&self, from_environment: Option<&str>) -> Result<String, Fault> {
        let key = self.api_key.as_deref().or(from_environment.map(trim)).unwrap_or_default();
        if key.is_empty() || key.contains(['\r', '\n', '\0']) {
            return Err(Fault::ApiKeyMissing);
        }
        Ok(key.to_owned())
    }
}

/// A number of milliseconds that a deadline can have.
pub fn timeout_ms(ms: f64) -> Option<u32> {
    let valid = ms.fract() == 0.0 && (1.0..=f64::from(MAX_TIMEOUT_MS)).contains(&ms);
    valid.then_some(ms as u32)
}

fn text(name: &'static str, setting: &Setting) -> Result<Option<String>, Fault> {
    match setting {
        Setting::Absent => Ok(None),
        Setting::Text(value) => match trim(value) {
            "" => Err(Fault::SettingNotText(name)),
            _ if value.contains('\0') => Err(Fault::SettingNotText(name)),
            trimmed => Ok(Some(trimmed.to_owned())),
        },
        _ => Err(Fault::SettingNotText(name)),
    }
}

fn origin(api_url: &str) -> Result<String, Fault> {
    let url = Url::parse(api_url).map_err(|_| Fault::ApiUrlInvalid)?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let scheme = url.scheme() == "https" || (url.scheme() == "http" && loopback);
    let bare = url.username().is_empty()
        && url.password().unwrap_or_default().is_empty()
        && url.query().unwrap_or_default().is_empty()
        && url.fragment().unwrap_or_default().is_empty();
    if !scheme || !bare || !matches!(url.path(), "" | "/" | "/v1" | "/v1/") {
        return Err(Fault::ApiUrlUnsafe);
    }
    Ok(url.origin().ascii_serialization())
}

/// JavaScript's `trim`, which knows the byte order mark as white space but not U+0085.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(api_url: &str) -> RawConfig {
        RawConfig { api_url: Setting::Text(api_url.into()), shape: Setting::Text("s".into()), ..RawConfig::default() }
    }

    fn url(api_url: &str) -> Result<String, Fault> {
        Config::parse(&raw(api_url)).map(|config| config.api_url)
    }

    #[test]
    fn an_origin_may_end_in_v1_and_keeps_its_port() {
        for (given, kept) in [
            ("https://a.test", "https://a.test"),
            ("https://A.test:443/v1/", "https://a.test"),
            ("\u{feff} https://a.test:8443/ ", "https://a.test:8443"),
            ("http://[::1]:3109", "http://[::1]:3109"),
            ("https://a.test/?", "https://a.test"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(kept), "{given}");
        }
    }

    #[test]
    fn what_could_leak_a_key_or_reach_somebody_else_is_no_api_url() {
        for given in [
            "http://a.test",
            "https://u@a.test",
            "https://:p@a.test",
            "https://a.test/v2",
            "https://a.test/#x",
            "ftp://a.test",
        ] {
            assert_eq!(url(given), Err(Fault::ApiUrlUnsafe), "{given}");
        }
        assert_eq!(url("not a url"), Err(Fault::ApiUrlInvalid));
        assert_eq!(url("\u{85}"), Err(Fault::ApiUrlInvalid), "U+0085 is not white space to JavaScript");
    }

    #[test]
    fn a_deadline_is_a_whole_number_of_milliseconds_up_to_a_day() {
        for bad in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY, 86_400_001.0] {
            assert_eq!(timeout_ms(bad), None, "{bad}");
        }
        assert_eq!(timeout_ms(86_400_000.0), Some(MAX_TIMEOUT_MS));
    }

    #[test]
    fn the_settings_key_wins_over_the_environments_which_is_trimmed() {
        let mut config = Config::parse(&raw("https://a.test")).unwrap();
        assert_eq!(config.resolve_key(Some(" k\n")).as_deref(), Ok("k"));
        for none in [None, Some(""), Some("  "), Some("a\nb"), Some("a\0b")] {
            assert_eq!(config.resolve_key(none), Err(Fault::ApiKeyMissing));
        }
        config.api_key = Some("own".into());
        assert_eq!(config.resolve_key(Some("other")).as_deref(), Ok("own"));
    }

    #[test]
    fn debug_output_has_no_key() {
        let mut config = Config::parse(&raw("https://a.test")).unwrap();
        config.api_key = Some("secret-key".into());
        assert!(!format!("{config:?}").contains("secret-key"));
    }

    /// Nearly a setting, often a good one.
    fn setting() -> impl Strategy<Value = Setting> {
        let text = prop::sample::select(vec![
            "https://",
            "http://",
            "a.test",
            "localhost",
            "[::1]",
            ":1",
            "/v1",
            "/",
            "@",
            " ",
        ]);
        prop_oneof![
            Just(Setting::Absent),
            any::<bool>().prop_map(Setting::Bool),
            (-1i32..86_400_002).prop_map(|ms| Setting::Number(ms.into())),
            any::<f64>().prop_map(Setting::Number),
            any::<String>().prop_map(Setting::Text),
            prop::collection::vec(text, 1..6).prop_map(|parts| Setting::Text(parts.concat())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn what_is_accepted_is_within_limits_and_says_the_same_when_it_is_read_again(
            url in "https?://(a\\.test|localhost|127\\.1|\\[::1\\])(:[0-9]{1,3})?(/|/v1/?|/x)?[?#]?",
            shape in "\\PC{1,3}",
            [api_key, rootfs, timeout_ms, reuse_lease, odd] in prop::array::uniform5(setting()),
            is_odd in any::<bool>(),
        ) {
            let api_url = if is_odd { odd } else { Setting::Text(url) };
            let raw = RawConfig { api_url, api_key, shape: Setting::Text(shape), rootfs, timeout_ms, reuse_lease, ..RawConfig::default() };
            if let Ok(config) = Config::parse(&raw) {
                let text = |text: &Option<String>| text.clone().map_or(Setting::Absent, Setting::Text);
                let again = RawConfig {
                    api_url: Setting::Text(config.api_url.clone()),
                    api_key: text(&config.api_key),
                    shape: Setting::Text(config.shape.clone()),
                    rootfs: text(&config.rootfs),
                    region: text(&config.region),
                    timeout_ms: Setting::Number(config.timeout_ms.into()),
                    reuse_lease: Setting::Bool(config.reuse_lease),
                };
                prop_assert!((1..=MAX_TIMEOUT_MS).contains(&config.timeout_ms));
                prop_assert!(config.api_url.starts_with("https://") || config.api_url.starts_with("http://"));
                prop_assert!(!config.api_url.ends_with(['/', '?', '#', '@']));
                prop_assert!(Config::parse(&again).as_ref() == Ok(&config));
            }
        }
    }
}
