//! `auth`: keys of providers. They are never on a command line, and never shown.

use std::io::{self, BufRead, Read};

use agentd_protocol::methods::{
    KeySource, KeyStatus, ListKeys, ListKeysParams, RemoveKey, RemoveKeyParams, SetKey, SetKeyParams,
};
use anyhow::Result;
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};

use crate::cli::AuthAction;
use crate::console::Console;
use crate::exit::{Exit, UsageError};
use crate::link::{Link, Start};
use crate::show::clean::one_line;
use crate::show::style::{pad, width};

/// Most bytes of a key that are read; the daemon keeps no longer one.
const MAX_KEY_BYTES: u64 = 65 * 1024;

/// Runs the verb.
///
/// # Errors
/// The command line holds a key, none was given, or the daemon does not keep it.
pub(crate) async fn run(console: &mut Console, action: AuthAction) -> Result<Exit> {
    match action {
        AuthAction::Login { provider, key } => {
            refuse_key(&provider, &key)?;
            // Before anything is started: somebody may think better of it.
            let key = read_key(console, &provider)?;
            login(&mut Link::open(Start::IfNeeded, console).await?, console, provider, key).await
        }
        AuthAction::Logout { provider } => {
            logout(&mut Link::open(Start::IfNeeded, console).await?, console, provider).await
        }
        AuthAction::Status => status(&mut Link::open(Start::IfNeeded, console).await?, console).await,
    }
}

/// Refuses a key on the command line, and repeats nothing of it.
fn refuse_key(provider: &str, key: &[String]) -> Result<()> {
    if key.is_empty() {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "a key on a command line is seen by every program of this machine and kept in the shell's history, so it is not \
         taken; run `agentctl auth login {}` and type it, or pipe it in. Think of renewing this one",
        one_line(provider)
    )))
}

async fn login(link: &mut Link, console: &mut Console, provider: String, key: String) -> Result<Exit> {
    let done = link.call::<SetKey>(&SetKeyParams { provider: provider.clone(), key }).await?;
    if console.json {
        console.json_line(&done)?;
    } else {
        console.note(&one_line(&format!("the key of {provider} is kept in {}", done.file)))?;
    }
    Ok(Exit::Done)
}

async fn logout(link: &mut Link, console: &mut Console, provider: String) -> Result<Exit> {
    let done = link.call::<RemoveKey>(&RemoveKeyParams { provider: provider.clone() }).await?;
    let left = link.call::<ListKeys>(&ListKeysParams::default()).await?.keys;
    if console.json {
        console.json_line(&done)?;
        return Ok(Exit::Done);
    }
    let what = if done.removed { "is forgotten" } else { "was not kept" };
    console.note(&one_line(&format!("the key of {provider} {what} ({})", done.file)))?;
    if let Some(other) = left.iter().find(|key| key.provider == provider) {
        console.note(&one_line(&format!("another one comes from {}", place(other))))?;
    }
    Ok(Exit::Done)
}

async fn status(link: &mut Link, console: &mut Console) -> Result<Exit> {
    let listed = link.call::<ListKeys>(&ListKeysParams::default()).await?;
    if console.json {
        console.json_line(&listed)?;
        return Ok(Exit::Done);
    }
    console.out.write_all(table(&listed.keys).as_bytes())?;
    if listed.keys.is_empty() {
        console.note("no keys; `agentctl auth login PROVIDER` keeps one")?;
    }
    console.out.flush()?;
    Ok(Exit::Done)
}

fn table(keys: &[KeyStatus]) -> String {
    let widest = keys.iter().map(|key| width(&one_line(&key.provider))).max().unwrap_or(0);
    keys.iter().map(|key| format!("{}  {}\n", pad(&one_line(&key.provider), widest), place(key))).collect()
}

fn place(key: &KeyStatus) -> String {
    let place = match key.source {
        KeySource::AuthFile => key.place.clone(),
        KeySource::ModelsFile => format!("apiKey in {}", key.place),
        KeySource::Variable => format!("${}", key.place),
    };
    one_line(&place)
}

/// Reads the key from the terminal, without showing it, or else from standard input.
fn read_key(console: &mut Console, provider: &str) -> Result<String> {
    let key = if console.in_is_terminal {
        write!(console.err, "key of {} (not shown): ", one_line(provider))?;
        console.err.flush()?;
        let typed = type_hidden(io::stdin().lock());
        writeln!(console.err)?;
        typed?
    } else {
        let mut text = String::new();
        io::stdin().lock().take(MAX_KEY_BYTES).read_to_string(&mut text)?;
        text
    };
    let key = key.trim().to_owned();
    if key.is_empty() { Err(UsageError::new("no key was given; nothing is changed")) } else { Ok(key) }
}

/// The terminal as it was, given back at the end.
struct Hidden(Termios);

impl Hidden {
    /// Lets nothing be shown that is typed, and takes Ctrl-C as it comes: a signal would end the program and leave the
    /// terminal so.
    fn new() -> Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags &= !(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        hidden.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        hidden.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // There is nothing else to try.
        let _ = tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.0);
    }
}

fn type_hidden(input: impl BufRead) -> Result<String> {
    let _hidden = Hidden::new()?;
    read_line(input)
}

/// Reads what is typed up to the end of the line; nothing edits it but what is read here.
fn read_line(input: impl BufRead) -> Result<String> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE: [u8; 2] = [8, 127];
    const ERASE_ALL: u8 = 21;
    let mut typed = Vec::new();
    for byte in input.take(MAX_KEY_BYTES).bytes() {
        match byte? {
            b'\n' | b'\r' | END => break,
            INTERRUPT => anyhow::bail!("interrupted; nothing is changed"),
            ERASE_ALL => typed.clear(),
            byte if ERASE.contains(&byte) => drop(typed.pop()),
            byte => typed.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&typed).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_on_the_command_line_is_refused_and_not_repeated() {
        refuse_key("openai", &[]).expect("nothing to refuse");
        let error = refuse_key("openai", &["sk-CANARY".to_owned()]).expect_err("refused");
        assert_eq!(Exit::of_error(&error), Some(Exit::Usage));
        let text = error.to_string();
        assert!(text.contains("shell's history") && !text.contains("CANARY"), "{text}");
    }

    #[test]
    fn what_is_typed_can_be_mended() {
        let read = |text: &str| read_line(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(read("sk-1\nrest"), Ok("sk-1".into()));
        assert_eq!(read("sx\u{7f}k\u{8}k-1\r"), Ok("sk-1".into()));
        assert_eq!(read("wrong\u{15}sk-1\u{4}"), Ok("sk-1".into()));
        assert_eq!(read(""), Ok(String::new()));
        assert_eq!(read("sk\u{3}"), Err("interrupted; nothing is changed".into()));
    }

    #[test]
    fn the_place_of_each_key_is_listed() {
        let keys = json!([
            {"provider": "anthropic", "source": "authFile", "place": "/c/auth.json"},
            {"provider": "openai", "source": "variable", "place": "OPENAI_API_KEY"},
            {"provider": "own", "source": "modelsFile", "place": "/c/models.json"},
        ]);
        let keys: Vec<KeyStatus> = serde_json::from_value(keys).expect("keys");
        let expected = "anthropic  /c/auth.json\nopenai     $OPENAI_API_KEY\nown        apiKey in /c/models.json\n";
        assert_eq!(table(&keys), expected);
    }
}
