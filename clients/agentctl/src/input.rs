//! What the user gives (words, `@file` arguments, images, piped input) made into one message.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use agentd_protocol::message::ContentBlock;
use agentd_protocol::paths;
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::cli::MessageArgs;
use crate::exit::UsageError;

/// Largest file or piped input, in bytes: a message of several still fits into what the daemon accepts (64 MiB).
const MAX_INPUT_BYTES: u64 = 20 * 1024 * 1024;
/// Piped input that does not end within this time is mentioned: many programs leave a pipe open without meaning it.
const STDIN_PATIENCE: Duration = Duration::from_secs(2);

/// A user message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Message {
    /// Its text.
    pub(crate) text: String,
    /// Its images.
    pub(crate) images: Vec<ContentBlock>,
}

/// Reads everything that the arguments name, and standard input if it is piped, and makes a message of it.
///
/// # Errors
/// A file cannot be read or is neither text nor an image, or there is nothing to say.
pub(crate) fn read_message(args: &MessageArgs, err: &mut dyn Write) -> Result<Message> {
    let stdin = read_stdin(err)?;
    let message = build(args, stdin, &|path| read_file(path))?;
    if message.text.trim().is_empty() && message.images.is_empty() {
        return Err(UsageError::new("there is nothing to send: give a text, an @file, an --image or piped input"));
    }
    Ok(message)
}

/// Makes a message: piped input first, then the files in their order, then the text.
fn build(args: &MessageArgs, stdin: Option<Vec<u8>>, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Message> {
    let mut message = Message::default();
    if let Some(content) = stdin.filter(|content| !content.is_empty()) {
        message.add("stdin", content)?;
    }
    let mut words = Vec::new();
    for word in &args.words {
        match word.strip_prefix('@').filter(|path| !path.is_empty()) {
            Some(path) => {
                let content = read(&expand_home(path)).map_err(|error| {
                    UsageError::new(format!("@{path}: {error} (to begin a text with @, put a space before it)"))
                })?;
                message.add(path, content)?;
            }
            None => words.push(word.as_str()),
        }
    }
    for path in &args.image {
        let name = path.display().to_string();
        let content = read(path).map_err(|error| UsageError::new(format!("{name}: {error}")))?;
        let mime_type = image_type(&content)
            .ok_or_else(|| UsageError::new(format!("{name} is not a PNG, JPEG, GIF or WebP image")))?;
        message.images.push(image(&content, mime_type));
    }
    message.text.push_str(&words.join(" "));
    Ok(message)
}

impl Message {
    fn add(&mut self, name: &str, content: Vec<u8>) -> Result<()> {
        if let Some(mime_type) = image_type(&content) {
            self.images.push(image(&content, mime_type));
            return Ok(());
        }
        let text = String::from_utf8(content)
            .map_err(|_| UsageError::new(format!("{name} is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image")))?;
        let name = name.replace('&', "&amp;").replace('"', "&quot;");
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        self.text.push_str(&format!("<file name=\"{name}\">\n{text}{line_end}</file>\n\n"));
        Ok(())
    }
}

fn image(content: &[u8], mime_type: &str) -> ContentBlock {
    ContentBlock::Image { data: BASE64.encode(content), mime_type: mime_type.to_owned() }
}

/// Tells the media type of an image by its first bytes.
fn image_type(content: &[u8]) -> Option<&'static str> {
    if content.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if content.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if content.starts_with(b"GIF87a") || content.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Expands a leading `~/` unless such a file exists: shells do not expand it after `@`.
fn expand_home(path: &str) -> PathBuf {
    let exact = PathBuf::from(path);
    match (path.strip_prefix("~/"), paths::home(&paths::process_env)) {
        (Some(rest), Some(home)) if !exact.exists() => home.join(rest),
        _ => exact,
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::Error::other("is a directory"));
    }
    read_limited(File::open(path)?)
}

fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(MAX_INPUT_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_INPUT_BYTES {
        return Err(io::Error::other(format!("larger than {} MiB", MAX_INPUT_BYTES / 1024 / 1024)));
    }
    Ok(content)
}

fn read_stdin(err: &mut dyn Write) -> Result<Option<Vec<u8>>> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The receiver is gone only when the program ends.
        let _ = sender.send(read_limited(stdin.lock()));
    });
    let content = match receiver.recv_timeout(STDIN_PATIENCE) {
        Err(RecvTimeoutError::Timeout) => {
            writeln!(err, "agentctl: reading standard input until it ends (use </dev/null if there is none)")?;
            receiver.recv()?
        }
        other => other?,
    };
    match content {
        Ok(content) => Ok(Some(content)),
        // A closed standard input is none.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EBADF as i32) => Ok(None),
        Err(error) => Err(UsageError::new(format!("standard input: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n...";

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("a.txt") => Ok(b"alpha\n".to_vec()),
            Some("b\"&.txt") => Ok(b"beta".to_vec()),
            Some("p.png") => Ok(PNG.to_vec()),
            Some("bad") => Ok(b"\xff\x00".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn args(words: &[&str], images: &[&str]) -> MessageArgs {
        MessageArgs {
            words: words.iter().map(ToString::to_string).collect(),
            image: images.iter().map(PathBuf::from).collect(),
        }
    }

    #[track_caller]
    fn check(words: &[&str], images: &[&str], stdin: Option<&[u8]>, text: &str, image_count: usize) {
        let message = build(&args(words, images), stdin.map(<[u8]>::to_vec), &read).expect("a message");
        assert_eq!((message.text.as_str(), message.images.len()), (text, image_count));
    }

    #[test]
    fn words_files_and_images_become_a_message() {
        check(&["fix", "the bug"], &[], None, "fix the bug", 0);
        check(&["look", "@a.txt", "here"], &[], None, "<file name=\"a.txt\">\nalpha\n</file>\n\nlook here", 0);
        check(&["@b\"&.txt"], &[], None, "<file name=\"b&quot;&amp;.txt\">\nbeta\n</file>\n\n", 0);
        check(&["what", "@p.png"], &["p.png"], None, "what", 2);
        check(&["sum"], &[], Some(b"1\n2"), "<file name=\"stdin\">\n1\n2\n</file>\n\nsum", 0);
        check(&["sum"], &[], Some(b""), "sum", 0);
        check(&["see"], &[], Some(PNG), "see", 1);
        check(&[" @a.txt", "@"], &[], None, " @a.txt @", 0);
    }

    #[test]
    fn an_image_is_sent_as_base64_with_its_type() {
        let message = build(&args(&[], &["p.png"]), None, &read).expect("a message");
        let expected = ContentBlock::Image { data: BASE64.encode(PNG), mime_type: "image/png".into() };
        assert_eq!(message.images, [expected]);
        assert_eq!(image_type(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(image_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(image_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(image_type(b"RIFF"), None);
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        for (words, images, named) in [
            (&["@missing"][..], &[][..], "@missing: "),
            (&["@bad"], &[], "bad is neither UTF-8 text nor"),
            (&[], &["a.txt"], "a.txt is not a PNG"),
            (&[], &["missing"], "missing: "),
        ] {
            let error = build(&args(words, images), None, &read).expect_err("an error");
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(error.downcast_ref::<UsageError>().is_some());
        }
    }

    #[test]
    fn too_much_is_refused_and_directories_are() {
        let error = read_limited(io::repeat(b'a')).expect_err("an error");
        assert_eq!(error.to_string(), "larger than 20 MiB");
        let error = read_file(Path::new("/")).expect_err("an error");
        assert_eq!(error.to_string(), "is a directory");
    }
}
