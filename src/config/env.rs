//! The environment of a session: what its tools see and where its keys are looked up.
//!
//! Pure: it is handed over by clients (or read from the login shell elsewhere), never taken from the daemon.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use agentd_protocol::methods::EnvSource;

use crate::constants::{MAX_ENV_BYTES, MAX_ENV_VARIABLE_BYTES};

/// Environment variables of one session. Cheap to clone; held in memory only.
#[derive(Clone)]
pub struct SessionEnv {
    vars: Arc<BTreeMap<String, String>>,
    source: EnvSource,
}

impl SessionEnv {
    /// Wraps variables that came from `source`.
    pub fn new(vars: BTreeMap<String, String>, source: EnvSource) -> Self {
        Self { vars: Arc::new(vars), source }
    }

    /// Returns one variable. An empty value counts as unset, as shells' `${X:-}` does.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns all variables.
    pub fn vars(&self) -> &BTreeMap<String, String> {
        &self.vars
    }

    /// Tells where the variables came from.
    pub fn source(&self) -> EnvSource {
        self.source
    }

    /// Returns the variables that tools may see: all but those named in `secrets`.
    pub fn for_tools(&self, secrets: &HashSet<String>) -> Vec<(String, String)> {
        self.vars
            .iter()
            .filter(|(name, _)| !secrets.contains(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Finds out whether a program can be started with these variables; if not, says which one is at fault and why.
///
/// # Errors
/// The text for people. It has no value in it, which may be a key.
pub fn check_vars(vars: &BTreeMap<String, String>) -> Result<(), String> {
    if let Some((name, why)) = vars.iter().find_map(|(name, value)| Some((name, fault(name, value)?))) {
        let shown: String = name.chars().take(80).collect();
        return Err(format!("variable {shown:?}: {why}"));
    }
    let bytes: usize = vars.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > MAX_ENV_BYTES {
        return Err(format!(
            "the variables take {bytes} bytes together; at most {MAX_ENV_BYTES} can be handed to tools"
        ));
    }
    Ok(())
}

/// Drops the variables with which no program can be started.
pub fn keep_usable(vars: &mut BTreeMap<String, String>) {
    vars.retain(|name, value| fault(name, value).is_none());
}

fn fault(name: &str, value: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("a name must not be empty");
    }
    if name.contains(['=', '\0']) {
        return Some("a name must not hold \"=\" or NUL");
    }
    if value.contains('\0') {
        return Some("its value must not hold NUL");
    }
    (name.len() + value.len() > MAX_ENV_VARIABLE_BYTES)
        .then_some("it is longer than the 128 KiB that a program can be given")
}

impl std::fmt::Debug for SessionEnv {
    /// Shows names only: values may be keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionEnv")
            .field("names", &self.vars.keys().collect::<Vec<_>>())
            .field("source", &self.source)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn variables_that_no_program_can_be_given_are_named() {
        let vars = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(check_vars(&vars("A", "b=c\n")), Ok(()));
        let fits = "x".repeat(MAX_ENV_VARIABLE_BYTES - 1);
        assert_eq!(check_vars(&vars("A", &fits)), Ok(()));
        for (name, value, why) in [
            ("", "x", "variable \"\": a name must not be empty"),
            ("A=B", "x", "variable \"A=B\": a name must not hold \"=\" or NUL"),
            ("A\0", "x", "variable \"A\\0\": a name must not hold \"=\" or NUL"),
            ("A", "secret\0", "variable \"A\": its value must not hold NUL"),
            ("AB", fits.as_str(), "variable \"AB\": it is longer than the 128 KiB that a program can be given"),
        ] {
            let mut vars = vars(name, value);
            assert_eq!(check_vars(&vars), Err(why.to_owned()));
            keep_usable(&mut vars);
            assert_eq!(vars, BTreeMap::new());
        }
        let many: BTreeMap<_, _> = (0..20).map(|number| (format!("V{number}"), "x".repeat(60_000))).collect();
        assert!(check_vars(&many).is_err_and(|why| why.starts_with("the variables take 12")));
    }
}
