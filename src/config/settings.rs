//! Settings and their parsing. Pure.

// From core: addresses alone, no sockets.
use core::net::{IpAddr, SocketAddr};
use std::time::Duration;

use agentd_protocol::methods::Mode;
use serde::Deserialize;

use crate::constants::{
    DEFAULT_MODE, MAX_RETRIES, MAX_RETRY_DELAY, PROVIDER_CONNECT_TIMEOUT, PROVIDER_FIRST_EVENT_TIMEOUT,
    PROVIDER_IDLE_TIMEOUT, RETRY_BASE_DELAY,
};

/// How failed requests to a model are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Whether they are tried again at all.
    pub enabled: bool,
    /// Most retries after the first attempt.
    pub max_retries: u32,
    /// Pause before the first retry; it doubles each time.
    pub base_delay: Duration,
    /// Longest pause of our own choosing.
    pub max_delay: Duration,
    /// Longest pause that a provider may ask for.
    pub max_asked_delay: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            max_retries: MAX_RETRIES,
            base_delay: RETRY_BASE_DELAY,
            max_delay: MAX_RETRY_DELAY,
            max_asked_delay: MAX_RETRY_DELAY,
        }
    }
}

/// Time limits of a request to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderClocks {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request to the first event.
    pub first_event: Duration,
    /// Between two events.
    pub idle: Duration,
}

impl Default for ProviderClocks {
    fn default() -> Self {
        Self {
            connect: PROVIDER_CONNECT_TIMEOUT,
            first_event: PROVIDER_FIRST_EVENT_TIMEOUT,
            idle: PROVIDER_IDLE_TIMEOUT,
        }
    }
}

impl ProviderClocks {
    /// Takes over what pi's settings say: `httpIdleTimeoutMs` for both waits, `retry.provider.timeoutMs` for the first.
    /// 0 says nothing.
    pub(super) fn with_pi(mut self, settings: &PiSettings) -> Self {
        let limit = |ms: Option<u64>| ms.filter(|ms| *ms > 0).map(Duration::from_millis);
        if let Some(idle) = limit(settings.http_idle_timeout_ms) {
            (self.first_event, self.idle) = (idle, idle);
        }
        let provider = settings.retry.as_ref().map(|retry| &retry.provider);
        self.first_event = provider.and_then(|provider| limit(provider.timeout_ms)).unwrap_or(self.first_event);
        self
    }

    /// Takes over what the daemon's environment says.
    pub(super) fn with_env(mut self, get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        for (name, limit) in [
            ("AGENTD_PROVIDER_CONNECT_TIMEOUT_MS", &mut self.connect),
            ("AGENTD_PROVIDER_FIRST_EVENT_TIMEOUT_MS", &mut self.first_event),
            ("AGENTD_PROVIDER_IDLE_TIMEOUT_MS", &mut self.idle),
        ] {
            if let Some(ms) =
                parse_env(get, name, "milliseconds, at least 1", |value| parse_number(value).filter(|ms| *ms > 0))?
            {
                *limit = Duration::from_millis(ms);
            }
        }
        Ok(self)
    }
}

/// What happens to images on their way to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSettings {
    /// Whether images over the limits are made smaller.
    pub auto_resize: bool,
    /// Whether none is sent: a note stands in its place, as for a model that takes no images.
    pub block: bool,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self { auto_resize: true, block: false }
    }
}

/// When what was written to a session file is also forced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Never: it survives the end of the daemon, not that of the machine.
    Flush,
    /// At user messages and ends of turns.
    #[default]
    Turn,
    /// At each entry.
    Entry,
}

/// Which files a session may change without reading them first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequireRead {
    /// All but those that changed since it last read or changed them.
    #[default]
    Changed,
    /// All.
    Off,
}

impl RequireRead {
    /// Reads `AGENTD_REQUIRE_READ`.
    pub(super) fn from_env(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let parse = |value: &str| match value {
            "changed" => Some(Self::Changed),
            "off" => Some(Self::Off),
            _ => None,
        };
        Ok(parse_env(get, "AGENTD_REQUIRE_READ", "changed or off", parse)?.unwrap_or_default())
    }
}

/// Reads `AGENTD_MODE`: the mode of sessions that name none.
pub(super) fn mode_from_env(get: &dyn Fn(&str) -> Option<String>) -> Result<Mode, SettingError> {
    let found = parse_env(get, "AGENTD_MODE", "read-only, ask, auto-edit or full", Mode::from_word)?;
    Ok(found.unwrap_or(DEFAULT_MODE))
}

/// Where servers of models on this machine are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalModels {
    /// Where they listen unless told otherwise.
    #[default]
    Default,
    /// Nowhere.
    Off,
    /// At these addresses of the loopback.
    At(Vec<SocketAddr>),
}

impl LocalModels {
    /// Reads `AGENTD_LOCAL_MODELS`.
    pub(super) fn from_env(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let expected = "0, 1, or a list of host:port whose host is localhost, 127.0.0.1 or [::1]";
        let parse = |value: &str| match parse_bool(value) {
            Some(true) => Some(Self::Default),
            Some(false) => Some(Self::Off),
            None => value.split(',').map(|item| parse_loopback(item.trim())).collect::<Option<_>>().map(Self::At),
        };
        Ok(parse_env(get, "AGENTD_LOCAL_MODELS", expected, parse)?.unwrap_or_default())
    }
}

fn parse_loopback(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = match text.strip_prefix("localhost:") {
        Some(port) => SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port.parse().ok()?),
        None => text.parse().ok()?,
    };
    (address.ip().is_loopback() && address.port() != 0).then_some(address)
}

/// A setting whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value:?}, but must be {expected}")]
pub struct SettingError {
    /// The variable.
    pub name: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub expected: &'static str,
}

/// The part of pi's `settings.json` that is used. Unknown members are ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PiSettings {
    retry: Option<PiRetry>,
    http_idle_timeout_ms: Option<u64>,
    images: Option<PiImages>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PiImages {
    auto_resize: Option<bool>,
    block_images: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PiRetry {
    enabled: Option<bool>,
    max_retries: Option<u32>,
    base_delay_ms: Option<u64>,
    max_agent_delay_ms: Option<u64>,
    provider: PiProvider,
}

/// What of a request is tried again below the agent. Here nothing is, so `maxRetries` means nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PiProvider {
    timeout_ms: Option<u64>,
    max_retry_delay_ms: Option<u64>,
}

impl ImageSettings {
    /// Takes over what pi's settings say.
    pub(super) fn with_pi(mut self, settings: &PiSettings) -> Self {
        let Some(images) = &settings.images else { return self };
        self.auto_resize = images.auto_resize.unwrap_or(self.auto_resize);
        self.block = images.block_images.unwrap_or(self.block);
        self
    }
}

impl RetrySettings {
    /// Takes over what pi's settings say.
    pub(super) fn with_pi(mut self, settings: &PiSettings) -> Self {
        let Some(retry) = &settings.retry else { return self };
        self.enabled = retry.enabled.unwrap_or(self.enabled);
        self.max_retries = retry.max_retries.unwrap_or(self.max_retries);
        self.base_delay = retry.base_delay_ms.map_or(self.base_delay, Duration::from_millis);
        self.max_delay = retry.max_agent_delay_ms.map_or(self.max_delay, Duration::from_millis);
        self.max_asked_delay = retry.provider.max_retry_delay_ms.map_or(self.max_asked_delay, Duration::from_millis);
        self
    }

    /// Takes over what the daemon's environment says.
    pub(super) fn with_env(mut self, get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        if let Some(enabled) = parse_env(get, "AGENTD_RETRY_ENABLED", "true or false", parse_bool)? {
            self.enabled = enabled;
        }
        if let Some(retries) = parse_env(get, "AGENTD_RETRY_MAX_RETRIES", "a whole number", parse_number)? {
            self.max_retries = retries;
        }
        if let Some(delay) = parse_env(get, "AGENTD_RETRY_BASE_DELAY_MS", "milliseconds", parse_number)? {
            self.base_delay = Duration::from_millis(delay);
        }
        if let Some(delay) = parse_env(get, "AGENTD_RETRY_MAX_DELAY_MS", "milliseconds", parse_number)? {
            (self.max_delay, self.max_asked_delay) = (Duration::from_millis(delay), Duration::from_millis(delay));
        }
        Ok(self)
    }
}

impl Durability {
    /// Reads `AGENTD_DURABILITY`.
    pub(super) fn from_env(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let parse = |value: &str| match value {
            "flush" => Some(Self::Flush),
            "turn" => Some(Self::Turn),
            "entry" => Some(Self::Entry),
            _ => None,
        };
        Ok(parse_env(get, "AGENTD_DURABILITY", "flush, turn or entry", parse)?.unwrap_or_default())
    }
}

fn parse_env<T>(
    get: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, SettingError> {
    match get(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match parse(value.trim()) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(SettingError { name, value, expected }),
        },
    }
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn parse_number<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(vars: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    fn pi(json: &str) -> RetrySettings {
        RetrySettings::default().with_pi(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn pi_settings_change_only_what_they_name() {
        assert_eq!(pi("{}"), RetrySettings::default());
        assert_eq!(pi(r#"{"retry":{"maxRetries":1},"theme":"dark"}"#).max_retries, 1);
        let all = pi(
            r#"{"retry":{"enabled":false,"maxRetries":7,"baseDelayMs":5,"maxAgentDelayMs":9,"provider":{"maxRetryDelayMs":8}}}"#,
        );
        let expected = RetrySettings {
            enabled: false,
            max_retries: 7,
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_millis(9),
            max_asked_delay: Duration::from_millis(8),
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn images_follow_pi() {
        let images = |json: &str| ImageSettings::default().with_pi(&serde_json::from_str(json).unwrap());
        assert_eq!(images("{}"), ImageSettings { auto_resize: true, block: false });
        assert_eq!(
            images(r#"{"images":{"autoResize":false,"blockImages":true}}"#),
            ImageSettings { auto_resize: false, block: true }
        );
    }

    #[test]
    fn environment_wins_over_pi() {
        let get = env(&[("AGENTD_RETRY_BASE_DELAY_MS", "10"), ("AGENTD_RETRY_ENABLED", "on")]);
        let retry = pi(r#"{"retry":{"enabled":false,"baseDelayMs":5}}"#).with_env(&get).unwrap();
        assert_eq!((retry.enabled, retry.base_delay), (true, Duration::from_millis(10)));
    }

    #[test]
    fn clocks_of_pi_and_of_the_environment() {
        let pi = |json: &str| ProviderClocks::default().with_pi(&serde_json::from_str(json).unwrap());
        let ms = Duration::from_millis;
        assert_eq!(pi(r#"{"httpIdleTimeoutMs":0}"#), ProviderClocks::default());
        let clocks = pi(r#"{"httpIdleTimeoutMs":7000,"retry":{"provider":{"timeoutMs":9000}}}"#);
        assert_eq!((clocks.first_event, clocks.idle), (ms(9000), ms(7000)));
        let clocks = clocks.with_env(&env(&[("AGENTD_PROVIDER_IDLE_TIMEOUT_MS", "50")])).unwrap();
        assert_eq!((clocks.first_event, clocks.idle), (ms(9000), ms(50)));
        clocks.with_env(&env(&[("AGENTD_PROVIDER_CONNECT_TIMEOUT_MS", "0")])).unwrap_err();
    }

    #[test]
    fn a_wrong_value_is_named() {
        let error = RetrySettings::default().with_env(&env(&[("AGENTD_RETRY_MAX_RETRIES", "-1")])).unwrap_err();
        assert_eq!(error.to_string(), r#"AGENTD_RETRY_MAX_RETRIES is "-1", but must be a whole number"#);
        let error = Durability::from_env(&env(&[("AGENTD_DURABILITY", "always")])).unwrap_err();
        assert_eq!(error.expected, "flush, turn or entry");
    }

    #[test]
    fn local_models_are_looked_for_on_this_machine_only() {
        let read = |value: &'static str| {
            LocalModels::from_env(&move |name| (name == "AGENTD_LOCAL_MODELS").then(|| value.to_owned()))
        };
        let at = |list: &[&str]| Ok(LocalModels::At(list.iter().map(|text| text.parse().unwrap()).collect()));
        for (value, expected) in [
            ("", Ok(LocalModels::Default)),
            ("1", Ok(LocalModels::Default)),
            ("0", Ok(LocalModels::Off)),
            ("off", Ok(LocalModels::Off)),
            ("localhost:8081", at(&["127.0.0.1:8081"])),
            ("127.0.0.1:1, [::1]:2", at(&["127.0.0.1:1", "[::1]:2"])),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        for value in
            ["192.168.0.2:8080", "0.0.0.0:8080", "example.org:80", "127.0.0.1", "127.0.0.1:0", "localhost:x", ","]
        {
            assert_eq!(read(value).unwrap_err().name, "AGENTD_LOCAL_MODELS", "{value}");
        }
    }

    #[test]
    fn changed_files_are_to_be_read_again_unless_told_otherwise() {
        assert_eq!(RequireRead::from_env(&env(&[])), Ok(RequireRead::Changed));
        assert_eq!(RequireRead::from_env(&env(&[("AGENTD_REQUIRE_READ", "off")])), Ok(RequireRead::Off));
        let error = RequireRead::from_env(&env(&[("AGENTD_REQUIRE_READ", "always")])).unwrap_err();
        assert_eq!(error.to_string(), r#"AGENTD_REQUIRE_READ is "always", but must be changed or off"#);
    }

    #[test]
    fn the_mode_is_one_of_the_four() {
        assert_eq!(mode_from_env(&env(&[])), Ok(DEFAULT_MODE));
        assert_eq!(mode_from_env(&env(&[("AGENTD_MODE", "auto-edit")])), Ok(Mode::AutoEdit));
        assert_eq!(mode_from_env(&env(&[("AGENTD_MODE", "AutoEdit")])).unwrap_err().name, "AGENTD_MODE");
    }

    #[test]
    fn durability_defaults_to_turns() {
        assert_eq!(Durability::from_env(&env(&[])), Ok(Durability::Turn));
        assert_eq!(Durability::from_env(&env(&[("AGENTD_DURABILITY", "entry")])), Ok(Durability::Entry));
    }
}
