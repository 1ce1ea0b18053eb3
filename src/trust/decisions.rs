//! The decisions and what they say of a folder. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Decision;

/// What was decided about a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// When, in milliseconds since the epoch; `None` when somebody wrote it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Name of the client that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What a later version adds.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Decided {
    /// Returns a decision made now.
    pub fn new(decision: Decision, now_ms: i64, client: Option<String>) -> Self {
        Self { decision, decided_at: Some(now_ms), client, rest: Map::new() }
    }
}

/// What the decisions say of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The decision; `None` when there is none for it or for a folder above it.
    pub decision: Option<Decision>,
    /// The folder that was decided about: this one or one above it.
    pub folder: Option<PathBuf>,
}

impl Standing {
    /// What holds where nothing was decided.
    pub const UNDECIDED: Self = Self { decision: None, folder: None };

    /// Tells whether what is in the folder may be loaded.
    pub fn is_trusted(&self) -> bool {
        self.decision == Some(Decision::Yes)
    }
}

/// All decisions, by canonical path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    folders: BTreeMap<PathBuf, Decided>,
    /// Places that folders with the decision `no` are behind links: a `no` holds there too. Never written.
    denied: BTreeSet<PathBuf>,
    /// What a later version adds beside the folders.
    rest: Map<String, Value>,
}

/// The file as it stands.
#[derive(Serialize, Deserialize)]
struct Document {
    folders: BTreeMap<String, Decided>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Decisions {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// What is wrong with it, and where, without its text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Document = serde_json::from_str(text).map_err(|error| {
            let what = if error.is_data() { "not what decisions look like" } else { "no JSON" };
            format!("{what} at line {}, column {}", error.line(), error.column())
        })?;
        let mut decisions = Self { rest: document.rest, ..Self::default() };
        for (folder, decided) in document.folders {
            if !Path::new(&folder).is_absolute() {
                return Err(format!("{folder:?} is not an absolute path"));
            }
            // Two spellings of one path: as everywhere, a `no` is not overruled by accident.
            let known = decisions.folders.get(Path::new(&folder));
            if known.is_none_or(|known| known.decision == Decision::Yes) {
                decisions.folders.insert(folder.into(), decided);
            }
        }
        Ok(decisions)
    }

    /// Returns the text of the file. Paths that are no text cannot be in here (see [`super::TrustError::NotText`]).
    pub(super) fn to_text(&self) -> String {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let folders = self.folders.iter().map(|(path, decided)| (name(path), decided.clone())).collect();
        let document = Document { folders, rest: self.rest.clone() };
        // Text, numbers and what was read as JSON: nothing that JSON cannot hold.
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Lets each `no` hold also where its folder is now, in case somebody wrote down a link or made it one since.
    pub(super) fn follow_denied(&mut self, place_of: impl Fn(&Path) -> Option<PathBuf>) {
        let denied = self.folders.iter().filter(|(_, decided)| decided.decision == Decision::No);
        self.denied = denied.filter_map(|(folder, _)| place_of(folder).filter(|place| place != folder)).collect();
    }

    /// Returns what holds for a folder, given by its canonical path: the decision about it or the nearest one above.
    pub fn of(&self, place: &Path) -> Standing {
        let found = place.ancestors().find_map(|folder| {
            let decided = self.folders.get(folder).map(|decided| decided.decision);
            let denied = self.denied.contains(folder).then_some(Decision::No);
            Some(Standing { decision: Some(decided.or(denied)?), folder: Some(folder.to_owned()) })
        });
        found.unwrap_or(Standing::UNDECIDED)
    }

    /// Returns all decisions, in the order of their paths.
    pub fn all(&self) -> impl Iterator<Item = (&Path, &Decided)> {
        self.folders.iter().map(|(path, decided)| (path.as_path(), decided))
    }

    pub(super) fn set(&mut self, place: PathBuf, decided: Decided) {
        self.folders.insert(place, decided);
    }

    pub(super) fn remove(&mut self, place: &Path) -> Option<Decided> {
        self.folders.remove(place)
    }
}

/// What one session may load: the decisions, and a folder that is trusted in this session alone.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    decisions: Arc<Decisions>,
    session: Option<PathBuf>,
}

impl Trusted {
    /// Returns the view of a session. `session` is a canonical path.
    pub fn new(decisions: Arc<Decisions>, session: Option<PathBuf>) -> Self {
        Self { decisions, session }
    }

    /// Returns what holds for a folder, given by its canonical path: what was decided about it or the nearest one above,
    /// and of two decisions about one folder that which is kept.
    pub fn of(&self, place: &Path) -> Standing {
        let standing = self.decisions.of(place);
        let Some(session) = self.session.as_ref().filter(|session| place.starts_with(session)) else { return standing };
        match &standing.folder {
            Some(folder) if folder.starts_with(session) => standing,
            _ => Standing { decision: Some(Decision::Yes), folder: Some(session.clone()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const TEXT: &str = r#"{
  "folders": {
    "/home/me": {
      "decision": "no",
      "decidedAt": 5,
      "client": "agentctl"
    },
    "/home/me/p": {
      "decision": "yes",
      "later": [
        1
      ]
    },
    "/home/me/p/vendor": {
      "decision": "no"
    }
  },
  "more": true
}
"#;

    #[test]
    fn the_nearest_decision_wins() {
        let decisions = Decisions::parse(TEXT).unwrap();
        for (place, decision, folder) in [
            ("/", None, None),
            ("/home", None, None),
            ("/home/me", Some(Decision::No), Some("/home/me")),
            ("/home/me/q/r", Some(Decision::No), Some("/home/me")),
            ("/home/me/p", Some(Decision::Yes), Some("/home/me/p")),
            ("/home/me/p/a/b/c", Some(Decision::Yes), Some("/home/me/p")),
            ("/home/me/p/vendor/x", Some(Decision::No), Some("/home/me/p/vendor")),
            ("/home/me/pp", Some(Decision::No), Some("/home/me")),
        ] {
            let folder = folder.map(PathBuf::from);
            assert_eq!(decisions.of(Path::new(place)), Standing { decision, folder }, "{place}");
        }
    }

    #[test]
    fn what_is_not_understood_is_kept() {
        assert_eq!(Decisions::parse(TEXT).unwrap().to_text(), TEXT);
    }

    #[test]
    fn a_no_holds_behind_a_link_and_for_every_spelling() {
        let text = r#"{"folders": {"/p/": {"decision": "no"}, "/p": {"decision": "yes"}, "/a": {"decision": "yes"}}}"#;
        let mut decisions = Decisions::parse(text).unwrap();
        decisions.follow_denied(|folder| (folder == Path::new("/p")).then(|| "/a/real".into()));
        let of = |place: &str| decisions.of(Path::new(place)).decision;
        assert_eq!(
            (of("/p"), of("/a"), of("/a/real/x")),
            (Some(Decision::No), Some(Decision::Yes), Some(Decision::No))
        );
    }

    #[test]
    fn a_session_may_trust_more_than_others() {
        let decisions = Arc::new(Decisions::parse(TEXT).unwrap());
        for (session, place, expected) in [
            (Some("/home/me/q"), "/home/me/q/r", true),
            (Some("/home/me/q"), "/home/me/r", false),
            (Some("/home/me"), "/home/me/q", false),
            (Some("/home"), "/home/me/q", false),
            (Some("/home/me/p"), "/home/me/p/vendor", false),
            (Some("/home/me/p/vendor/x"), "/home/me/p/vendor/x", true),
            (Some("/srv"), "/srv/x", true),
            (None, "/srv/x", false),
        ] {
            let trusted = Trusted::new(Arc::clone(&decisions), session.map(PathBuf::from));
            assert_eq!(trusted.of(Path::new(place)).is_trusted(), expected, "{session:?} {place}");
        }
    }

    #[test]
    fn nonsense_is_told_by_its_place_alone() {
        for (text, expected) in [
            ("", "no JSON at line 1, column 0"),
            ("{", "no JSON at line 1, column 1"),
            ("[]", "not what decisions look like at line 1, column 0"),
            ("{}", "not what decisions look like at line 1, column 2"),
            (r#"{"folders": {"/p": "sk-CANARY"}}"#, "not what decisions look like at line 1, column 30"),
            (r#"{"folders": {"/p": {"decision": "perhaps"}}}"#, "not what decisions look like at line 1, column 41"),
            (r#"{"folders": {"p": {"decision": "yes"}}}"#, "\"p\" is not an absolute path"),
        ] {
            assert_eq!(Decisions::parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
