//! Identifiers. Each is a type of its own, so that one cannot be passed for another.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(transparent)]
        pub struct $name(#[schemars(with = "String")] Arc<str>);

        impl $name {
            /// Wraps the text of an identifier; any text is accepted.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }
    };
}

string_id! {
    /// A session: the uuid in the header of its file.
    SessionId
}
string_id! {
    /// An entry of a session file: eight hex digits in files written by agentd and pi, any text in foreign ones.
    EntryId
}
string_id! {
    /// A tool call, named by the model; unique within one assistant message.
    ToolCallId
}
string_id! {
    /// A question to a person that is waiting for an answer.
    ApprovalId
}
string_id! {
    /// One load of a session; sequence numbers of different epochs cannot be compared.
    Epoch
}

/// Number of an event within one epoch of a session: 1, 2, 3 …, without gaps. 0 is "before the first".
pub type Seq = u64;

/// A position in a session's event stream: everything up to and including `seq` has been seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// The load of the session that `seq` belongs to.
    pub epoch: Epoch,
    /// The last event seen.
    pub seq: Seq,
    /// The view in which the events were read; the one asked for when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<crate::methods::View>,
}
