//! What holds, in the types in which it is used.

// Of `std::net` only addresses would be used, and this module is pure: `core::net` has the addresses alone, no sockets.
use core::net::SocketAddr;
use std::time::Duration;

use agentd_protocol::methods::{Headless, Mode};

use super::key::Key;
use super::keys;
use super::kind::{Value, parse_loopback};
use super::resolve::{Resolved, resolve};
use crate::constants::DEFAULT_MODE;

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Model of new sessions; `None` for the one used last, else the first with a key.
    pub model: Option<String>,
    /// What tools may do without a question.
    pub mode: Mode,
    /// What becomes of questions when nobody is there to answer.
    pub headless: Headless,
    /// How long questions wait, in milliseconds; 0: for ever.
    pub ask_timeout_ms: u64,
    /// Most turns of one run.
    pub max_turns: u32,
    /// Which files sessions may change without reading them first.
    pub require_read: RequireRead,
    /// How failed requests are tried again.
    pub retry: RetrySettings,
    /// Time limits of a request to a provider.
    pub provider_clocks: ProviderClocks,
    /// What happens to images.
    pub images: ImageSettings,
    /// Pause of the demo model between deltas.
    pub demo_delay: Duration,
    /// When writes are forced to the disk.
    pub durability: Durability,
    /// Where servers of models on this machine are looked for.
    pub local_models: LocalModels,
    /// Where session files are written, as it was said; `None` for the usual place.
    pub sessions_dir: Option<String>,
    /// How much is logged: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: String,
}

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

/// What happens to images on their way to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSettings {
    /// Whether images over the limits are made smaller.
    pub auto_resize: bool,
    /// Whether none is sent: a note stands in its place, as for a model that takes no images.
    pub block: bool,
}

/// When what was written to a session file is also forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Never: it survives the end of the daemon, not that of the machine.
    Flush,
    /// At user messages and ends of turns.
    Turn,
    /// At each entry.
    Entry,
}

/// Which files a session may change without reading them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequireRead {
    /// All but those that changed since it last read or changed them.
    Changed,
    /// All.
    Off,
}

/// Where servers of models on this machine are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalModels {
    /// Where they listen unless told otherwise.
    Default,
    /// Nowhere.
    Off,
    /// At these addresses of the loopback.
    At(Vec<SocketAddr>),
}

impl Default for Settings {
    /// What holds when nobody says anything.
    fn default() -> Self {
        Self::of(&resolve(&[]))
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Settings::default().retry
    }
}

impl Default for ProviderClocks {
    fn default() -> Self {
        Settings::default().provider_clocks
    }
}

impl Settings {
    /// Returns what holds.
    pub fn of(resolved: &Resolved) -> Self {
        let held = Held(resolved);
        Self {
            model: held.text(&keys::MODEL).filter(|name| !name.is_empty()),
            mode: Mode::from_word(held.word(&keys::MODE)).unwrap_or(DEFAULT_MODE),
            headless: Headless::from_word(held.word(&keys::HEADLESS)).unwrap_or_default(),
            ask_timeout_ms: held.number(&keys::ASK_TIMEOUT),
            max_turns: held.count(&keys::MAX_TURNS),
            require_read: if held.word(&keys::REQUIRE_READ) == "off" { RequireRead::Off } else { RequireRead::Changed },
            retry: RetrySettings {
                enabled: held.flag(&keys::RETRY_ENABLED),
                max_retries: held.count(&keys::RETRY_MAX_RETRIES),
                base_delay: held.time(&keys::RETRY_BASE_DELAY),
                max_delay: held.time(&keys::RETRY_MAX_DELAY),
                max_asked_delay: held.time(&keys::RETRY_MAX_ASKED_DELAY),
            },
            provider_clocks: ProviderClocks {
                connect: held.time(&keys::CONNECT_TIMEOUT),
                first_event: held.time(&keys::FIRST_EVENT_TIMEOUT),
                idle: held.time(&keys::IDLE_TIMEOUT),
            },
            images: ImageSettings {
                auto_resize: held.flag(&keys::IMAGES_AUTO_RESIZE),
                block: held.flag(&keys::IMAGES_BLOCK),
            },
            demo_delay: held.time(&keys::DEMO_DELAY),
            durability: match held.word(&keys::DURABILITY) {
                "flush" => Durability::Flush,
                "entry" => Durability::Entry,
                _ => Durability::Turn,
            },
            local_models: local_models(resolved.value(&keys::LOCAL_MODELS)),
            sessions_dir: held.text(&keys::SESSIONS_DIR),
            log_level: held.word(&keys::LOG_LEVEL).to_owned(),
        }
    }
}

fn local_models(value: Option<&Value>) -> LocalModels {
    match value {
        Some(Value::Flag(false)) => LocalModels::Off,
        Some(Value::List(places)) if places.is_empty() => LocalModels::Off,
        Some(Value::List(places)) => LocalModels::At(places.iter().filter_map(|place| parse_loopback(place)).collect()),
        _ => LocalModels::Default,
    }
}

/// Gives values in the types that their rows promise.
struct Held<'a>(&'a Resolved);

impl Held<'_> {
    fn flag(&self, key: &Key) -> bool {
        matches!(self.0.value(key), Some(Value::Flag(true)))
    }

    fn number(&self, key: &Key) -> u64 {
        match self.0.value(key) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    fn count(&self, key: &Key) -> u32 {
        u32::try_from(self.number(key)).unwrap_or(u32::MAX)
    }

    fn time(&self, key: &Key) -> Duration {
        Duration::from_millis(self.number(key))
    }

    fn text(&self, key: &Key) -> Option<String> {
        match self.0.value(key) {
            Some(Value::Text(text)) => Some(text.clone().into_owned()),
            _ => None,
        }
    }

    fn word(&self, key: &Key) -> &str {
        match self.0.value(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::config::settings::Layer;

    #[test]
    fn what_is_set_arrives_in_its_type() {
        let set = |assignments: &[&str]| {
            let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
            Settings::of(&resolve(&[&Layer::of_command_line(&assignments).unwrap()]))
        };
        let ms = Duration::from_millis;
        let default = Settings::default();
        assert_eq!(default.model, None);
        assert_eq!((default.max_turns, default.retry.max_retries, default.retry.enabled), (50, 3, true));
        assert_eq!((default.provider_clocks.connect, default.demo_delay), (ms(30_000), ms(12)));
        assert_eq!(
            set(&["model=a/b", "mode=auto-edit", "max_turns=7", "tools.require_read=off"]),
            Settings {
                model: Some("a/b".into()),
                mode: Mode::AutoEdit,
                max_turns: 7,
                require_read: RequireRead::Off,
                ..default.clone()
            }
        );
        assert_eq!(set(&["model="]).model, None);
        let all = [
            "retry.enabled=no",
            "retry.max_retries=1",
            "retry.base_delay_ms=2",
            "retry.max_delay_ms=3",
            "retry.max_asked_delay_ms=4",
            "provider.connect_timeout_ms=5",
            "provider.first_event_timeout_ms=6",
            "provider.idle_timeout_ms=7",
            "images.auto_resize=0",
            "images.block=on",
            "demo.delay_ms=8",
            "durability=entry",
            "sessions_dir=~/s",
            "log.level=warn",
            "local_models=",
        ];
        assert_eq!(
            set(&all),
            Settings {
                retry: RetrySettings {
                    enabled: false,
                    max_retries: 1,
                    base_delay: ms(2),
                    max_delay: ms(3),
                    max_asked_delay: ms(4)
                },
                provider_clocks: ProviderClocks { connect: ms(5), first_event: ms(6), idle: ms(7) },
                images: ImageSettings { auto_resize: false, block: true },
                demo_delay: ms(8),
                durability: Durability::Entry,
                sessions_dir: Some("~/s".into()),
                log_level: "warn".into(),
                local_models: LocalModels::Off,
                ..default
            }
        );
        let at = |list: &[&str]| LocalModels::At(list.iter().map(|text| text.parse().unwrap()).collect());
        assert_eq!(set(&["local_models=1"]).local_models, LocalModels::Default);
        assert_eq!(set(&["local_models=localhost:1, [::1]:2"]).local_models, at(&["127.0.0.1:1", "[::1]:2"]));
    }
}
