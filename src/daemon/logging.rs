//! Logs: to stderr, or to the journal when stderr is one.
//!
//! At the default level a log line holds no message text, no tool output and no key. Other crates are held to
//! warnings at every level, because at finer ones they print what passes through them, headers with keys included.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::redact::KeyBook;

/// Starts logging up to a level, and makes panics part of the log.
pub(super) fn start(level: &str) {
    // The word comes from the table of settings, which has the same ones.
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    let registry = Registry::default().with(layer().with_filter(targets(level)));
    // Only a second start in one process fails, as in tests; the first one's log is good.
    let _ = registry.try_init();
    log_panics();
}

fn targets(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN.min(level))
        .with_target("agentd", level)
        .with_target("agentd_protocol", level)
}

fn layer() -> Box<dyn Layer<Registry> + Send + Sync> {
    if stderr_is_journal()
        && let Ok(journal) = tracing_journald::layer()
    {
        return journal.boxed();
    }
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
    tracing_subscriber::fmt::layer()
        .with_writer(|| WithoutKeys(std::io::stderr()))
        .with_ansi(colours)
        // Reporting a failed write to stderr on stderr would panic once its reader is gone.
        .log_internal_errors(false)
        .boxed()
}

/// Keys that are not written to the log, once they are known.
static KEYS: OnceLock<KeyBook> = OnceLock::new();

/// Keeps known keys out of the log from now on. What is logged has no key in it anyway; this is for what is forgotten.
pub(super) fn hide_keys(book: KeyBook) {
    // A second daemon in one process, as in tests, keeps the first one's.
    let _ = KEYS.set(book);
}

/// Writes log lines, each of which comes as a whole, without keys.
struct WithoutKeys<W>(W);

impl<W: Write> Write for WithoutKeys<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        match KEYS.get().map(KeyBook::keys).filter(|keys| !keys.is_empty()) {
            Some(keys) => self.0.write_all(keys.redact(&String::from_utf8_lossy(line)).as_bytes())?,
            None => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// systemd says in `JOURNAL_STREAM` which file is the journal's; a redirected stderr is another one.
fn stderr_is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", stderr.dev(), stderr.ino())
}

/// The text of a panic may quote what was being worked on (a string that was cut at a wrong place, for one), so only
/// the place is told at the default level. For the same reason a `JoinError` must not be logged: it repeats the text.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        tracing::error!(place, thread, "a fault of the daemon (panic); AGENTD_LOG=debug shows its text");
        let text = info.payload_as_str().unwrap_or("");
        tracing::debug!(text, backtrace = %std::backtrace::Backtrace::capture(), "text of the panic");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{Kind, keys};

    #[test]
    fn other_crates_stay_quiet_at_every_level() {
        let finest = targets(LevelFilter::TRACE);
        assert!(finest.would_enable("agentd::rpc", &tracing::Level::TRACE));
        assert!(!finest.would_enable("hyper_util::client", &tracing::Level::INFO));
        assert!(finest.would_enable("hyper_util::client", &tracing::Level::WARN));
        assert!(!targets(LevelFilter::ERROR).would_enable("reqwest", &tracing::Level::WARN));
    }

    #[test]
    fn every_word_of_the_setting_is_a_level() {
        let Kind::Word(words) = keys::LOG_LEVEL.kind else { panic!("words") };
        assert_eq!(words.len(), 6);
        for word in words {
            assert!(word.parse::<LevelFilter>().is_ok(), "{word}");
        }
    }

    #[test]
    fn b210_a_log_line_has_no_key() {
        let book = KeyBook::default();
        book.learn([("K".to_owned(), "sk-CANARY-of-the-log".to_owned())]);
        hide_keys(book);
        let mut log = WithoutKeys(Vec::new());
        log.write_all(b"failed: sk-CANARY-of-the-log\n").unwrap();
        assert_eq!(log.0, b"failed: [redacted: K]\n");
    }
}
