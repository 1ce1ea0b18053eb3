//! What a strict provider refuses about the images of a request (Anthropic's rules, the strictest).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Longest base64 text of one image.
const MAX_BASE64: usize = 5 * 1024 * 1024;
/// Longest side, and the longest where there are more than [`MANY`] images.
const MAX_SIDE: u32 = 8000;
const MAX_SIDE_OF_MANY: u32 = 2000;
const MANY: usize = 20;

/// An image as a request has it: media type and base64 text.
pub(super) type Sent = Result<(String, String), String>;

/// Takes an image out of a data URL.
pub(super) fn of_url(url: &str) -> Sent {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    parts.map(|(mime, data)| (mime.to_owned(), data.to_owned())).ok_or_else(|| "an image is no data URL".to_owned())
}

/// The images of one request.
#[derive(Default)]
pub(super) struct Images {
    longest_sides: Vec<u32>,
    found: Vec<String>,
}

impl Images {
    /// Counts and checks one.
    pub(super) fn add(&mut self, sent: Sent) {
        match sent.and_then(|(mime, data)| longest_side(&mime, &data)) {
            Ok(side) => self.longest_sides.push(side),
            Err(finding) => self.found.push(finding),
        }
    }

    /// Returns what is wrong.
    pub(super) fn findings(mut self) -> Vec<String> {
        let most = if self.longest_sides.len() > MANY { MAX_SIDE_OF_MANY } else { MAX_SIDE };
        let large = self.longest_sides.iter().filter(|side| **side > most);
        self.found.extend(large.map(|side| format!("an image is {side} pixels wide or high, at most {most} may be")));
        self.found
    }
}

fn longest_side(mime: &str, data: &str) -> Result<u32, String> {
    if data.len() > MAX_BASE64 {
        return Err(format!("an image has {} bytes of base64, at most {MAX_BASE64} may be", data.len()));
    }
    let bytes = STANDARD.decode(data).map_err(|error| format!("an image is no base64: {error}"))?;
    let format = image::guess_format(&bytes).map_err(|error| format!("an image is none: {error}"))?;
    let is_taken = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&mime);
    if !is_taken || format.to_mime_type() != mime {
        return Err(format!("an image is called {mime} and is {}", format.to_mime_type()));
    }
    // The mark at its end: decoders fill up what is missing of a JPEG.
    if mime == "image/jpeg" && !bytes.ends_with(b"\xff\xd9") {
        return Err("a JPEG is cut off".to_owned());
    }
    let image = image::load_from_memory(&bytes).map_err(|error| format!("could not process image: {error}"))?;
    Ok(image.width().max(image.height()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32) -> String {
        let mut file = std::io::Cursor::new(Vec::new());
        image::RgbImage::new(width, 1).write_to(&mut file, image::ImageFormat::Png).unwrap();
        STANDARD.encode(file.into_inner())
    }

    #[track_caller]
    fn check(sent: Vec<(&str, String)>, expected: usize) {
        let mut images = Images::default();
        for (mime, data) in sent {
            images.add(of_url(&format!("data:{mime};base64,{data}")));
        }
        let findings = images.findings();
        assert_eq!(findings.len(), expected, "{findings:?}");
    }

    #[test]
    fn strict_about_images() {
        check(vec![("image/png", png(8000))], 0);
        check(vec![("image/png", png(8001))], 1);
        check(vec![("image/png", png(2001)); 20], 0);
        check(vec![("image/png", png(2001)); 21], 21);
        check(vec![("image/jpeg", png(1)), ("image/png", String::new()), ("image/png", "AA==".to_owned())], 3);
        check(vec![("image/png", "A".repeat(MAX_BASE64 + 4))], 1);
    }
}
