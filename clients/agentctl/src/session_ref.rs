//! How sessions are named on the command line.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use agentd_protocol::SessionId;
use agentd_protocol::client::Client;
use agentd_protocol::methods::{ListSessions, ListSessionsParams};
use anyhow::Result;

use crate::exit::UsageError;

/// Characters of an id that people are shown: its random tail.
const SHORT_ID_CHARS: usize = 8;

/// A session as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionRef {
    /// `@last`: the one used last.
    Last,
    /// `@cwd`: the one used last in the current directory.
    Cwd,
    /// An id, or the end of one: the daemon finds the session.
    Id(String),
    /// `@` and another word.
    Unknown(String),
}

impl FromStr for SessionRef {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "@last" => Self::Last,
            "@cwd" => Self::Cwd,
            _ if text.starts_with('@') || text.is_empty() => Self::Unknown(text.to_owned()),
            _ => Self::Id(text.to_owned()),
        })
    }
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("@last"),
            Self::Cwd => f.write_str("@cwd"),
            Self::Id(text) | Self::Unknown(text) => f.write_str(text),
        }
    }
}

impl SessionRef {
    /// Returns the id to send: for an id, or a tail of one, what was typed.
    ///
    /// # Errors
    /// There is no such session, or the name is no name of a session.
    pub(crate) async fn resolve(&self, client: &Client, cwd: &Path) -> Result<SessionId> {
        let cwd = match self {
            Self::Id(text) => return Ok(SessionId::new(text)),
            Self::Unknown(text) => {
                return Err(UsageError::new(format!(
                    "{text:?} names no session: use an id, the end of one, @last or @cwd"
                )));
            }
            Self::Last => None,
            Self::Cwd => Some(cwd.to_string_lossy().into_owned()),
        };
        let params = ListSessionsParams { cwd: cwd.clone(), limit: Some(1), ..ListSessionsParams::default() };
        let page = client.call::<ListSessions>(&params).await?;
        match (page.sessions.into_iter().next(), cwd) {
            (Some(row), _) => Ok(row.session_id),
            (None, Some(cwd)) => anyhow::bail!("no session of {cwd} yet; `agentctl run TEXT` makes one"),
            (None, None) => anyhow::bail!("there is no session yet; `agentctl run TEXT` makes one"),
        }
    }
}

/// Returns the end of an id, which is what people are shown and may type.
pub(crate) fn short_id(id: &SessionId) -> &str {
    let text = id.as_str();
    text.char_indices().rev().nth(SHORT_ID_CHARS - 1).map_or(text, |(start, _)| &text[start..])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_are_told_apart() {
        let parse = |text: &str| text.parse::<SessionRef>().unwrap_or_else(|never| match never {});
        assert_eq!(parse("@last"), SessionRef::Last);
        assert_eq!(parse("@cwd"), SessionRef::Cwd);
        assert_eq!(parse("@lst"), SessionRef::Unknown("@lst".into()));
        assert_eq!(parse(""), SessionRef::Unknown(String::new()));
        for id in ["0192a3b4-0000-7000-8000-1234567890ab", "567890ab", "odd id"] {
            assert_eq!(parse(id), SessionRef::Id(id.into()));
            assert_eq!(parse(id).to_string(), id);
        }
    }

    #[test]
    fn the_random_tail_is_shown() {
        assert_eq!(short_id(&"0192a3b4-0000-7000-8000-1234567890ab".into()), "567890ab");
        assert_eq!(short_id(&"abc".into()), "abc");
        assert_eq!(short_id(&"".into()), "");
        assert_eq!(short_id(&"éééééééééé".into()), "éééééééé");
    }
}
