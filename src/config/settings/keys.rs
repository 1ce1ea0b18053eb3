//! The table of keys.

use std::borrow::Cow;
use std::time::Duration;

use agentd_protocol::methods::Mode;

use super::key::{Applies, Key, Project, Scope};
use super::kind::{Kind, Value};
use crate::constants as limits;

/// Most milliseconds of any time: a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MILLISECONDS: Kind = Kind::Number { min: 0, max: DAY_MS };
const TIME_LIMIT: Kind = Kind::Number { min: 1, max: DAY_MS };

/// A row as most are: of a session, from the next run on, for projects to choose, unknown to pi.
const ROW: Key = Key {
    name: "",
    kind: Kind::Text,
    default: None,
    variable: "",
    scope: Scope::Session,
    applies: Applies::Run,
    project: Project::Any,
    pi: &[],
    doc: "",
};

const fn flag(flag: bool) -> Option<Value> {
    Some(Value::Flag(flag))
}

const fn number(number: u64) -> Option<Value> {
    Some(Value::Number(number))
}

const fn word(word: &'static str) -> Option<Value> {
    Some(Value::Text(Cow::Borrowed(word)))
}

const fn ms(time: Duration) -> Option<Value> {
    Some(Value::Number(time.as_millis() as u64))
}

/// Model of new sessions.
pub static MODEL: Key = Key {
    name: "model",
    variable: "AGENTD_DEFAULT_MODEL",
    applies: Applies::Session,
    doc: "The model of new sessions, `provider/id[:thinkingLevel]` or a part of it that fits only one. Unset or empty: \
          the one used last, else the first with a key.",
    ..ROW
};

/// What tools may do without a question.
pub static MODE: Key = Key {
    name: "mode",
    kind: Kind::Word(&[Mode::ReadOnly.as_str(), Mode::Ask.as_str(), Mode::AutoEdit.as_str(), Mode::Full.as_str()]),
    default: word(limits::DEFAULT_MODE.as_str()),
    variable: "AGENTD_MODE",
    applies: Applies::Session,
    project: Project::Stricter,
    doc: "What tools may do without a question: only read (`read-only`), read (`ask`), also change files in the working \
          directory (`auto-edit`), or everything (`full`). `set_mode` of a session counts more.",
    ..ROW
};

/// What becomes of questions when nobody is there.
pub static HEADLESS: Key = Key {
    name: "permissions.headless",
    kind: Kind::Word(&["deny", "wait"]),
    default: word("deny"),
    variable: "AGENTD_PERMISSIONS_HEADLESS",
    applies: Applies::Session,
    doc: "What becomes of a question when nobody is attached who could answer: taken for answered with no at once \
          (`deny`), or left to wait for somebody (`wait`).",
    ..ROW
};

/// How long questions wait.
pub static ASK_TIMEOUT: Key = Key {
    name: "permissions.ask_timeout_ms",
    kind: MILLISECONDS,
    default: number(0),
    variable: "AGENTD_PERMISSIONS_ASK_TIMEOUT_MS",
    applies: Applies::Session,
    doc: "How long a question waits before it is taken for answered with no, in milliseconds; 0: for ever.",
    ..ROW
};

/// Most turns of a run.
pub static MAX_TURNS: Key = Key {
    name: "max_turns",
    kind: Kind::Number { min: 1, max: limits::MAX_MAX_TURNS as u64 },
    default: number(limits::DEFAULT_MAX_TURNS as u64),
    variable: "AGENTD_MAX_TURNS",
    project: Project::Stricter,
    doc: "Most turns of one run. When they are taken, somebody is asked whether to go on; with nobody there the run ends.",
    ..ROW
};

/// Which files may be changed unread.
pub static REQUIRE_READ: Key = Key {
    name: "tools.require_read",
    kind: Kind::Word(&["changed", "off"]),
    default: word("changed"),
    variable: "AGENTD_REQUIRE_READ",
    applies: Applies::Session,
    project: Project::Stricter,
    doc: "Whether a file that changed since the session last saw it must be read again before the session changes it \
          (`changed`), or need not be (`off`).",
    ..ROW
};

/// Whether to try again.
pub static RETRY_ENABLED: Key = Key {
    name: "retry.enabled",
    kind: Kind::Flag,
    default: flag(true),
    variable: "AGENTD_RETRY_ENABLED",
    pi: &["/retry/enabled"],
    doc: "Whether failed requests to a model are tried again. `set_auto_retry` of a session counts more.",
    ..ROW
};

/// How often to try again.
pub static RETRY_MAX_RETRIES: Key = Key {
    name: "retry.max_retries",
    kind: Kind::Number { min: 0, max: 1000 },
    default: number(limits::MAX_RETRIES as u64),
    variable: "AGENTD_RETRY_MAX_RETRIES",
    pi: &["/retry/maxRetries"],
    doc: "Most retries after the first attempt.",
    ..ROW
};

/// The first pause.
pub static RETRY_BASE_DELAY: Key = Key {
    name: "retry.base_delay_ms",
    kind: MILLISECONDS,
    default: ms(limits::RETRY_BASE_DELAY),
    variable: "AGENTD_RETRY_BASE_DELAY_MS",
    pi: &["/retry/baseDelayMs"],
    doc: "Pause before the first retry, in milliseconds; it doubles each time.",
    ..ROW
};

/// The longest pause.
pub static RETRY_MAX_DELAY: Key = Key {
    name: "retry.max_delay_ms",
    kind: MILLISECONDS,
    default: ms(limits::MAX_RETRY_DELAY),
    variable: "AGENTD_RETRY_MAX_DELAY_MS",
    pi: &["/retry/maxAgentDelayMs"],
    doc: "Longest pause before a retry, in milliseconds.",
    ..ROW
};

/// The longest pause that is granted.
pub static RETRY_MAX_ASKED_DELAY: Key = Key {
    name: "retry.max_asked_delay_ms",
    kind: MILLISECONDS,
    default: ms(limits::MAX_RETRY_DELAY),
    variable: "AGENTD_RETRY_MAX_ASKED_DELAY_MS",
    pi: &["/retry/provider/maxRetryDelayMs"],
    doc: "Longest pause that a provider may ask for, in milliseconds; the run ends if it asks for more.",
    ..ROW
};

/// Time for a connection.
pub static CONNECT_TIMEOUT: Key = Key {
    name: "provider.connect_timeout_ms",
    kind: TIME_LIMIT,
    default: ms(limits::PROVIDER_CONNECT_TIMEOUT),
    variable: "AGENTD_PROVIDER_CONNECT_TIMEOUT_MS",
    doc: "Time until the connection to a provider stands, in milliseconds.",
    ..ROW
};

/// Time for a first event.
pub static FIRST_EVENT_TIMEOUT: Key = Key {
    name: "provider.first_event_timeout_ms",
    kind: TIME_LIMIT,
    default: ms(limits::PROVIDER_FIRST_EVENT_TIMEOUT),
    variable: "AGENTD_PROVIDER_FIRST_EVENT_TIMEOUT_MS",
    pi: &["/retry/provider/timeoutMs", "/httpIdleTimeoutMs"],
    doc: "Time from a request to the first event of its answer, in milliseconds.",
    ..ROW
};

/// Time between events.
pub static IDLE_TIMEOUT: Key = Key {
    name: "provider.idle_timeout_ms",
    kind: TIME_LIMIT,
    default: ms(limits::PROVIDER_IDLE_TIMEOUT),
    variable: "AGENTD_PROVIDER_IDLE_TIMEOUT_MS",
    pi: &["/httpIdleTimeoutMs"],
    doc: "Time between two events of an answer, in milliseconds.",
    ..ROW
};

/// Whether images are made smaller.
pub static IMAGES_AUTO_RESIZE: Key = Key {
    name: "images.auto_resize",
    kind: Kind::Flag,
    default: flag(true),
    variable: "AGENTD_IMAGES_AUTO_RESIZE",
    pi: &["/images/autoResize"],
    doc: "Whether images over the limits of models are made smaller.",
    ..ROW
};

/// Whether images are held back.
pub static IMAGES_BLOCK: Key = Key {
    name: "images.block",
    kind: Kind::Flag,
    default: flag(false),
    variable: "AGENTD_IMAGES_BLOCK",
    project: Project::Never,
    pi: &["/images/blockImages"],
    doc: "Whether no image is sent to a model: a note stands in its place.",
    ..ROW
};

/// Pace of the demo model.
pub static DEMO_DELAY: Key = Key {
    name: "demo.delay_ms",
    kind: Kind::Number { min: 0, max: 60_000 },
    default: ms(limits::DEMO_DELAY),
    variable: "AGENTD_DEMO_DELAY_MS",
    doc: "Pause of the demo model between two deltas, in milliseconds.",
    ..ROW
};

/// When writes are forced to the disk.
pub static DURABILITY: Key = Key {
    name: "durability",
    kind: Kind::Word(&["flush", "turn", "entry"]),
    default: word("turn"),
    variable: "AGENTD_DURABILITY",
    scope: Scope::Daemon,
    project: Project::Never,
    doc: "When what is written to session files is also forced to the disk: never (`flush`; it survives the end of the \
          daemon, not that of the machine), at user messages and ends of turns (`turn`), or at each entry (`entry`).",
    ..ROW
};

/// Where local servers are looked for.
pub static LOCAL_MODELS: Key = Key {
    name: "local_models",
    kind: Kind::Loopback,
    default: flag(true),
    variable: "AGENTD_LOCAL_MODELS",
    scope: Scope::Daemon,
    applies: Applies::Start,
    project: Project::Never,
    doc: "Where servers of models on this machine are looked for: where they listen by default (`true`), nowhere \
          (`false`, or an empty text or list), or at these places, such as `localhost:8081,[::1]:9000`.",
    ..ROW
};

/// Where sessions are written.
pub static SESSIONS_DIR: Key = Key {
    name: "sessions_dir",
    kind: Kind::Path,
    variable: "AGENTD_SESSIONS_DIR",
    scope: Scope::Daemon,
    applies: Applies::Start,
    project: Project::Never,
    doc: "Where session files are written. Unset: `sessions` in the state directory.",
    ..ROW
};

/// How much is logged.
pub static LOG_LEVEL: Key = Key {
    name: "log.level",
    kind: Kind::Word(&["off", "error", "warn", "info", "debug", "trace"]),
    default: word("info"),
    variable: "AGENTD_LOG",
    scope: Scope::Daemon,
    applies: Applies::Start,
    project: Project::Never,
    doc: "How much the daemon logs. Up to `info` a log holds no message text.",
    ..ROW
};

/// Every key, in the order of the documentation.
pub static KEYS: &[&Key] = &[
    &MODEL,
    &MODE,
    &HEADLESS,
    &ASK_TIMEOUT,
    &MAX_TURNS,
    &REQUIRE_READ,
    &RETRY_ENABLED,
    &RETRY_MAX_RETRIES,
    &RETRY_BASE_DELAY,
    &RETRY_MAX_DELAY,
    &RETRY_MAX_ASKED_DELAY,
    &CONNECT_TIMEOUT,
    &FIRST_EVENT_TIMEOUT,
    &IDLE_TIMEOUT,
    &IMAGES_AUTO_RESIZE,
    &IMAGES_BLOCK,
    &DEMO_DELAY,
    &DURABILITY,
    &LOCAL_MODELS,
    &SESSIONS_DIR,
    &LOG_LEVEL,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        for key in KEYS {
            if let Some(default) = &key.default {
                assert_eq!(key.kind.parse(&default.to_json().to_string().replace('"', "")).as_ref(), Some(default));
            }
            assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}", key.name);
            assert!(key.variable.starts_with("AGENTD_"), "{}", key.name);
            assert!(key.scope == Scope::Session || key.project == Project::Never, "{}: no project is asked", key.name);
            assert!(key.scope == Scope::Daemon || key.applies != Applies::Start, "{}", key.name);
            let depth = key.name.split('.').count();
            assert!(depth <= 2, "{}", key.name);
        }
        let unique = |names: Vec<&str>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        assert!(unique(KEYS.iter().map(|key| key.name).collect()));
        assert!(unique(KEYS.iter().map(|key| key.variable).collect()));
    }
}
