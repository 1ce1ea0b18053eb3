//! Tells images from other files by their first bytes, and whole ones from damaged ones.
//!
//! Pure. Nothing is decoded: an image counts as whole when its parts follow each other up to the end mark. A damaged
//! or oversized image must never reach the history, where every later request would fail because of it.

/// Kinds of images that are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageKind {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF, also animated.
    Gif,
    /// WebP.
    Webp,
    /// Windows bitmap; providers take none.
    Bmp,
}

/// Bytes that [`ImageKind::of`] needs to see.
pub(crate) const HEAD_BYTES: usize = 32;

impl ImageKind {
    /// Recognises an image by the beginning of its file.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if head.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            Some(Self::Webp)
        } else if head.starts_with(b"BM") && is_bmp(head) {
            Some(Self::Bmp)
        } else {
            None
        }
    }

    /// Returns its media type.
    pub(crate) fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Bmp => "image/bmp",
        }
    }

    /// Returns width and height of a whole image, `None` of a damaged one.
    pub(crate) fn dimensions(self, file: &[u8]) -> Option<(u32, u32)> {
        let (width, height) = match self {
            Self::Png => png(file),
            Self::Jpeg => jpeg(file),
            Self::Gif => gif(file),
            Self::Webp => webp(file),
            Self::Bmp => bmp(file),
        }?;
        (width > 0 && height > 0).then_some((width, height))
    }
}

/// `BM` alone also begins texts: the header size must be one that exists, and the reserved fields zero.
fn is_bmp(head: &[u8]) -> bool {
    head.get(6..10) == Some(&[0; 4])
        && le32(head, 14).is_some_and(|size| [12, 40, 52, 56, 64, 108, 124].contains(&size))
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le24(bytes: &[u8], at: usize) -> Option<u32> {
    Some(le16(bytes, at)? | u32::from(*bytes.get(at + 2)?) << 16)
}

/// Chunks of length, name, data and checksum, from IHDR to IEND (PNG specification, section 5).
fn png(file: &[u8]) -> Option<(u32, u32)> {
    let size = (be32(file, 16)?, be32(file, 20)?);
    if file.get(12..16)? != b"IHDR" {
        return None;
    }
    let mut at = 8;
    loop {
        let length = usize::try_from(be32(file, at)?).ok()?;
        let name = file.get(at + 4..at + 8)?;
        let end = at.checked_add(12)?.checked_add(length)?;
        let checked = file.get(at + 4..end - 4)?;
        if crc32(checked) != be32(file, end - 4)? {
            return None;
        }
        if name == b"IEND" {
            return Some(size);
        }
        at = end;
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        (crc >> 8) ^ CRC_TABLE[index as usize]
    })
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut value = n as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
};

/// Segments up to the frame header, which has the size; the end mark must be among the last bytes (cameras pad).
fn jpeg(file: &[u8]) -> Option<(u32, u32)> {
    const END: &[u8] = b"\xff\xd9";
    let tail = &file[file.len().saturating_sub(4096)..];
    memchr::memmem::rfind(tail, END)?;
    let mut at = 2;
    loop {
        while *file.get(at)? == 0xff && *file.get(at + 1)? == 0xff {
            at += 1;
        }
        if *file.get(at)? != 0xff {
            return None;
        }
        let marker = *file.get(at + 1)?;
        match marker {
            // All frame headers but DHT, JPG and DAC, which share the range.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((be16(file, at + 7)?, be16(file, at + 5)?));
            }
            0x01 | 0xd0..=0xd7 => at += 2,
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::try_from(be16(file, at + 2)?).ok()?,
        }
    }
}

/// Blocks up to the trailer (GIF89a specification).
fn gif(file: &[u8]) -> Option<(u32, u32)> {
    let table = |flags: u8| if flags & 0x80 != 0 { 3 << ((flags & 7) + 1) } else { 0 };
    let mut at = 13 + table(*file.get(10)?);
    let mut frames = 0;
    loop {
        match *file.get(at)? {
            0x3b => return (frames > 0).then_some((le16(file, 6)?, le16(file, 8)?)),
            0x21 => at = sub_blocks_end(file, at + 2)?,
            0x2c => {
                at = sub_blocks_end(file, at + 11 + table(*file.get(at + 9)?))?;
                frames += 1;
            }
            _ => return None,
        }
    }
}

fn sub_blocks_end(file: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *file.get(at)? {
            0 => return Some(at + 1),
            length => at += 1 + usize::from(length),
        }
    }
}

/// The first chunk tells the size in one of three ways (WebP container specification).
fn webp(file: &[u8]) -> Option<(u32, u32)> {
    let claimed = usize::try_from(le32(file, 4)?).ok()?.checked_add(8)?;
    if file.len() < claimed {
        return None;
    }
    match file.get(12..16)? {
        b"VP8 " => Some((le16(file, 26)? & 0x3fff, le16(file, 28)? & 0x3fff)),
        b"VP8L" => {
            let bits = le32(file, 21)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((le24(file, 24)? + 1, le24(file, 27)? + 1)),
        _ => None,
    }
}

fn bmp(file: &[u8]) -> Option<(u32, u32)> {
    if le32(file, 14)? == 12 {
        return Some((le16(file, 18)?, le16(file, 20)?));
    }
    // Negative heights are stored top down.
    let side = |at| le32(file, at).map(|side| side.cast_signed().unsigned_abs());
    Some((side(18)?, side(22)?))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::sample as test_sample;

/// Checksum of a chunk, for tests that make images.
#[cfg(test)]
pub(crate) fn test_crc32(bytes: &[u8]) -> u32 {
    crc32(bytes)
}
