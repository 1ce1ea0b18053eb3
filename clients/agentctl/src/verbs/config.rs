//! `config`: what the settings are, and which place says so.

use agentd_protocol::methods::{
    ConfigFile, ConfigSource, GetConfig, GetConfigParams, GetConfigResult, Origin, SetConfig, SetConfigParams,
    SetConfigResult, Setting,
};
use anyhow::Result;
use serde_json::Value;

use crate::cli::{ConfigAction, ConfigShowArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::show::clean::one_line;
use crate::show::style::{Style, pad, width};
use crate::verbs::run::assignments;

/// Runs the verb.
///
/// # Errors
/// There is no such key or session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, action: ConfigAction) -> Result<Exit> {
    match action {
        ConfigAction::Show(args) => show(link, console, args).await,
        ConfigAction::Get { key } => get(link, console, key).await,
        ConfigAction::Set { key, value, project } => set(link, console, key, Value::String(value), project).await,
        ConfigAction::Unset { key, project } => set(link, console, key, Value::Null, project).await,
        ConfigAction::Path => path(link, console).await,
    }
}

async fn show(link: &mut Link, console: &mut Console, args: ConfigShowArgs) -> Result<Exit> {
    let session_id = match &args.session {
        Some(session) => Some(session.resolve(&link.client, &console.cwd).await?),
        None => None,
    };
    let settings = assignments(&args.set)?;
    let params = GetConfigParams { session_id, settings, key: args.key, ..GetConfigParams::default() };
    let config = link.call::<GetConfig>(&params).await?;
    if console.json {
        console.json_line(&config)?;
        return Ok(Exit::Done);
    }
    let text = if args.origin { origins(&config, console.out_style) } else { values(&config) };
    console.out.write_all(text.as_bytes())?;
    tell_faults(console, &config)?;
    Ok(Exit::Done)
}

async fn get(link: &mut Link, console: &mut Console, key: String) -> Result<Exit> {
    let params = GetConfigParams { key: Some(key), ..GetConfigParams::default() };
    let config = link.call::<GetConfig>(&params).await?;
    let Some(setting) = config.settings.first() else { return Ok(Exit::Error) };
    if console.json {
        console.json_line(setting)?;
    } else if let Some(text) = plain(&setting.value) {
        console.line(&text)?;
    }
    tell_faults(console, &config)?;
    Ok(if setting.value.is_null() { Exit::Error } else { Exit::Done })
}

async fn set(link: &mut Link, console: &mut Console, key: String, value: Value, project: bool) -> Result<Exit> {
    let params = SetConfigParams { key, value, project: project.then_some(true), cwd: None };
    let done = link.call::<SetConfig>(&params).await?;
    if console.json {
        console.json_line(&done)?;
        return Ok(Exit::Done);
    }
    let SetConfigResult { file, setting } = done;
    console.note(&one_line(&format!("{file}: {} ({})", assignment(&setting), place(&setting.origin))))?;
    if let Some(after) = &setting.after_restart {
        console.note(&one_line(&format!("{} after a restart of the daemon", shown(&after.value))))?;
    }
    Ok(Exit::Done)
}

async fn path(link: &mut Link, console: &mut Console) -> Result<Exit> {
    let config = link.call::<GetConfig>(&GetConfigParams::default()).await?;
    if console.json {
        console.json_line(&config.files)?;
        return Ok(Exit::Done);
    }
    let user = config.files.iter().find(|file| file.source == ConfigSource::User);
    console.line(&one_line(user.map_or("", |file| file.path.as_str())))?;
    Ok(Exit::Done)
}

/// Tells what is wrong in the files and variables, and which file was passed over.
fn tell_faults(console: &mut Console, config: &GetConfigResult) -> Result<()> {
    console.out.flush()?;
    for ConfigFile { path, ignored, .. } in &config.files {
        if let Some(why) = ignored {
            console.note(&one_line(&format!("{path} is passed over: {why}")))?;
        }
    }
    for fault in &config.faults {
        console.note(&one_line(&fault.to_string()))?;
    }
    Ok(())
}

/// Lists settings as a `config.toml` would set them.
fn values(config: &GetConfigResult) -> String {
    config.settings.iter().map(|setting| one_line(&assignment(setting)) + "\n").collect()
}

fn assignment(setting: &Setting) -> String {
    format!("{} = {}", setting.key, shown(&setting.value))
}

/// Lists settings with the places that set them.
fn origins(config: &GetConfigResult, style: Style) -> String {
    let lines: Vec<String> = config.settings.iter().map(|setting| one_line(&assignment(setting))).collect();
    let widest = lines.iter().map(|line| width(line)).max().unwrap_or(0);
    let mut out = String::new();
    for (line, setting) in lines.iter().zip(&config.settings) {
        out += &format!("{}  {}\n", pad(line, widest), style.dim(&place(&setting.origin)));
        let overridden = setting.overridden.iter().map(|other| ("over", other));
        let pending = setting.after_restart.iter().map(|other| ("after a restart", other));
        for (word, other) in overridden.chain(pending) {
            let text = format!("{word} {} ({})", shown(&other.value), place(&other.origin));
            out += &format!("{}  {}\n", pad("", widest), style.dim(&one_line(&text)));
        }
    }
    out
}

/// Says what kind of place it is, and where.
fn place(origin: &Origin) -> String {
    let kind = match origin.source {
        ConfigSource::Project => "project ",
        ConfigSource::User => "user ",
        ConfigSource::Pi => "pi ",
        ConfigSource::Environment => "environment ",
        ConfigSource::Session | ConfigSource::CommandLine | ConfigSource::Default => "",
    };
    one_line(&format!("{kind}{origin}"))
}

fn shown(value: &Value) -> String {
    if value.is_null() { "(unset)".to_owned() } else { value.to_string() }
}

/// Writes a value for scripts: text as it is, a list with commas.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(one_line(text)),
        Value::Array(items) => Some(one_line(&items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn config() -> GetConfigResult {
        let user = json!({"source": "user", "file": "/c/config.toml", "line": 3});
        serde_json::from_value(json!({"settings": [
            {"key": "model", "value": null, "origin": {"source": "default"}},
            {"key": "max_turns", "value": 5, "origin": {"source": "session"}, "overridden": [
                {"value": 7, "origin": {"source": "environment", "variable": "AGENTD_MAX_TURNS"}},
                {"value": 9, "origin": user}, {"value": 50, "origin": {"source": "default"}}]},
            {"key": "local_models", "value": ["localhost:1", "[::1]:2"], "origin": {"source": "commandLine"},
                "afterRestart": {"value": "", "origin": user}},
        ]}))
        .expect("a config")
    }

    #[test]
    fn settings_are_listed_as_a_file_sets_them() {
        let expected = "model = (unset)\nmax_turns = 5\nlocal_models = [\"localhost:1\",\"[::1]:2\"]\n";
        assert_eq!(values(&config()), expected);
    }

    #[test]
    fn origins_are_listed_with_what_counts_less() {
        let expected = "\
model = (unset)                           default
max_turns = 5                             given to the session
                                          over 7 (environment AGENTD_MAX_TURNS)
                                          over 9 (user /c/config.toml:3)
                                          over 50 (default)
local_models = [\"localhost:1\",\"[::1]:2\"]  agentd serve --set
                                          after a restart \"\" (user /c/config.toml:3)
";
        assert_eq!(origins(&config(), Style::default()), expected);
    }

    #[test]
    fn scripts_get_bare_values() {
        for (value, expected) in [
            (json!("a b"), Some("a b")),
            (json!(""), Some("")),
            (json!(["a", "b"]), Some("a,b")),
            (json!(5), Some("5")),
            (json!(false), Some("false")),
            (json!(null), None),
        ] {
            assert_eq!(plain(&value).as_deref(), expected);
        }
    }
}
