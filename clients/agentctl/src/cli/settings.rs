//! The command lines of `config` and `auth`.

use clap::{Args, Subcommand};

use crate::session_ref::SessionRef;

/// Arguments of `config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// List every setting and what it is, for a session that would be made here
    Show(ConfigShowArgs),
    /// Print what a setting is; exit code 1 when it is not set
    Get {
        /// Its name, such as retry.max_retries
        key: String,
    },
    /// Set something in your settings
    Set {
        /// Its name, such as retry.max_retries
        key: String,
        /// What it is to be; "" is an empty text, not "unset"
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// In the settings of this directory's project instead
        #[arg(long)]
        project: bool,
    },
    /// Take something out of your settings
    Unset {
        /// Its name
        key: String,
        /// Out of the settings of this directory's project instead
        #[arg(long)]
        project: bool,
    },
    /// Print the path of the file with your settings
    Path,
}

/// Arguments of `auth`.
#[derive(Args, Debug)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) action: AuthAction,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthAction {
    /// Keep the key of a provider: it is typed without being shown, or piped in
    Login {
        /// The provider, such as anthropic or openai
        provider: String,
        /// Not taken: what stands on a command line is seen by others
        #[arg(hide = true)]
        key: Vec<String>,
    },
    /// Forget the key of a provider that `login` has kept
    Logout {
        /// The provider
        provider: String,
    },
    /// Tell of which providers there are keys, and where each comes from
    Status,
}

/// Arguments of `config show`.
#[derive(Args, Debug, Default)]
pub(crate) struct ConfigShowArgs {
    /// Also say which place sets each, and which places count less
    #[arg(long)]
    pub(crate) origin: bool,
    /// What holds for this session
    #[arg(long, conflicts_with = "set")]
    pub(crate) session: Option<SessionRef>,
    /// As if this was given to the session; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only this one
    pub(crate) key: Option<String>,
}
