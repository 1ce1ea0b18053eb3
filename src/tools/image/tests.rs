use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Smallest images of each kind, 1×1 unless the name says otherwise.
pub(crate) fn sample(kind: ImageKind) -> Vec<u8> {
    let text = match kind {
        ImageKind::Png => {
            "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAK0lEQVR4nAXBAQYAAAgDwBGNKKIR/f+f3QEAyaqSBDOLiO7eXbh7Zs7M\
             3T0d0wHngmO8GQAAAABJRU5ErkJggg=="
        }
        ImageKind::Gif => "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
        ImageKind::Webp => "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAQAcJaQAA3AA/v3AgAA=",
        ImageKind::Jpeg => {
            "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////\
             ////////////////2wBDAf//////////////////////////////////////////////////////////////////////////////////\
             ////wAARCAABAAEDASIAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAAAv/EABQQAQAAAAAAAAAAAAAAAAAAAAD/xAAUAQEAAAAAAAAA\
             AAAAAAAAAAAA/8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAwDAQACEQMRAD8AP//Z"
        }
        ImageKind::Bmp => return bitmap(3, -2),
    };
    STANDARD.decode(text).unwrap()
}

fn bitmap(width: i32, height: i32) -> Vec<u8> {
    let mut file = b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    file.extend(width.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend([0; 60]);
    file
}

const KINDS: [(ImageKind, (u32, u32)); 5] = [
    (ImageKind::Png, (4, 3)),
    (ImageKind::Gif, (1, 1)),
    (ImageKind::Webp, (1, 1)),
    (ImageKind::Jpeg, (1, 1)),
    (ImageKind::Bmp, (3, 2)),
];

#[test]
fn whole_images_have_a_size() {
    for (kind, size) in KINDS {
        let file = sample(kind);
        assert_eq!(ImageKind::of(&file[..HEAD_BYTES]), Some(kind));
        assert_eq!(kind.dimensions(&file), Some(size), "{kind:?}");
    }
}

#[test]
fn cut_images_are_damaged() {
    for (kind, _) in KINDS {
        let file = sample(kind);
        // A bitmap has no end mark; it is not sent in any case. A cut inside JPEG's end mark cannot be missed.
        for end in 0..file.len() {
            if kind != ImageKind::Bmp {
                assert_eq!(kind.dimensions(&file[..end]), None, "{kind:?} cut at {end}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_png_is_noticed() {
    for at in 8..sample(ImageKind::Png).len() {
        let mut file = sample(ImageKind::Png);
        file[at] ^= 4;
        assert_eq!(ImageKind::Png.dimensions(&file), None, "bit flipped in byte {at}");
    }
}

#[test]
fn texts_are_no_images() {
    for head in
        [&b""[..], b"BM25 ranks documents by the terms of a query", b"<svg/>", b"GIF", b"RIFFxxxxWAVE", b"\x89PN"]
    {
        assert_eq!(ImageKind::of(head), None);
    }
}

#[test]
fn sizes_of_all_webp_variants() {
    let with = |chunk: &[u8]| {
        let mut file = b"RIFF\0\0\0\0WEBP".to_vec();
        file.extend(chunk);
        file[4] = u8::try_from(file.len() - 8).unwrap();
        ImageKind::Webp.dimensions(&file)
    };
    assert_eq!(with(b"VP8L\x05\0\0\0\x2f\x63\x40\x02\x00"), Some((100, 10)));
    assert_eq!(with(b"VP8X\x0a\0\0\0\0\0\0\0\x27\x23\0\x63\0\0"), Some((9000, 100)));
    assert_eq!(with(b"ICCP\x0a\0\0\0\0\0\0\0\x27\x23\0\x63\0\0"), None);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0..5_usize, keep in 0..200_usize) {
        let kind = KINDS[which].0;
        let _ = (ImageKind::of(&bytes), kind.dimensions(&bytes));
        let mut file = sample(kind);
        file.truncate(keep);
        file.append(&mut bytes);
        let _ = kind.dimensions(&file);
    }
}
