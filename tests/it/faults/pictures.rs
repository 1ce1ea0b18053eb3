//! Picture files for tests.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, Frame, ImageFormat, RgbImage, RgbaImage};
use serde_json::{Value, json};

/// Returns the file of a picture in a format.
pub(super) fn file(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.into().write_to(&mut file, format).unwrap();
    file.into_inner()
}

/// Returns a picture of one colour.
pub(super) fn plain(width: u32, height: u32) -> RgbImage {
    RgbImage::from_pixel(width, height, image::Rgb([20, 90, 160]))
}

/// Returns a picture that no encoding makes small.
pub(super) fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 7_u32;
    let bytes = (0..width * height * 3).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    RgbImage::from_raw(width, height, bytes.collect()).unwrap()
}

/// Returns a GIF of two pictures.
pub(super) fn animation() -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut file);
    encoder.encode_frames([Frame::new(RgbaImage::new(8, 8)), Frame::new(RgbaImage::new(8, 8))]).unwrap();
    drop(encoder);
    file
}

/// Returns a PNG that claims more pixels than it has.
pub(super) fn bomb(side: u32) -> Vec<u8> {
    let mut png = file(plain(1, 1), ImageFormat::Png);
    png[16..20].copy_from_slice(&side.to_be_bytes());
    png[20..24].copy_from_slice(&side.to_be_bytes());
    let crc = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    png
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
    })
}

/// Returns an image block of a file.
pub(super) fn block(file: &[u8], mime: &str) -> Value {
    json!({"type": "image", "data": STANDARD.encode(file), "mimeType": mime})
}

/// Returns width and height of an image block.
pub(super) fn size(block: &Value) -> (u32, u32) {
    let file = STANDARD.decode(block["data"].as_str().expect("an image block")).unwrap();
    let image = image::load_from_memory(&file).unwrap();
    (image.width(), image.height())
}
