//! Makes an image fit for models: small enough, upright, and of a kind that providers take.
//!
//! Pure. An image that is within the limits stays as it is, byte for byte, but is decoded once all the same: what a
//! provider cannot read must never reach the history. The limits and steps are pi's.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::imageops::FilterType as Resampling;
use image::metadata::Orientation;
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, ImageResult, Limits,
    RgbImage, Rgba,
};

use super::image::ImageKind;
use super::truncate::format_size;
use crate::constants::{
    IMAGE_DECODE_BYTES, IMAGE_MAX_BASE64_BYTES, IMAGE_MAX_FILE_BYTES, IMAGE_MAX_PIXELS, IMAGE_MAX_SIDE,
};

/// JPEG qualities that are tried in turn before the image is made smaller still (pi tries 80, 85, 70, 55 and 40).
const QUALITIES: [u8; 4] = [80, 70, 55, 40];

/// An image as it is stored and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FitImage {
    /// Its media type.
    pub(crate) mime: &'static str,
    /// Its bytes in base64.
    pub(crate) data: String,
    /// What a model must know to point at places of the original, when the sizes differ.
    pub(crate) note: Option<String>,
}

/// Why an image cannot be handed to a model. The text is a sentence for models and people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnfitImage {
    /// The file is too large to be opened.
    #[error("the file has more than {}, which is not opened. Make a smaller copy.", format_size(IMAGE_MAX_FILE_BYTES))]
    TooManyBytes,
    /// The picture is too large to be opened.
    #[error(
        "it has {width}x{height} pixels, at most {} megapixels are opened. Make a smaller copy.",
        IMAGE_MAX_PIXELS / 1_000_000
    )]
    TooManyPixels {
        /// As its head says.
        width: u32,
        /// As its head says.
        height: u32,
    },
    /// Not all of it is there, or it is not what it claims to be.
    #[error("the file is damaged or cut off.")]
    Damaged,
    /// The work was given up.
    #[error("the work was given up.")]
    Stopped,
}

/// Makes an image fit. With `resize` off, it only has to be whole and of a kind that providers take.
///
/// Takes up to some 100 ms for each step of a large image; `is_stopped` is asked between them.
///
/// # Errors
/// Why it cannot be handed to a model.
pub(crate) fn fit(
    kind: ImageKind,
    file: &[u8],
    resize: bool,
    is_stopped: &dyn Fn() -> bool,
) -> Result<FitImage, UnfitImage> {
    if file.len() > IMAGE_MAX_FILE_BYTES {
        return Err(UnfitImage::TooManyBytes);
    }
    let (width, height) = kind.dimensions(file).ok_or(UnfitImage::Damaged)?;
    let as_it_is = || FitImage { mime: kind.mime(), data: STANDARD.encode(file), note: None };
    if !resize && kind != ImageKind::Bmp {
        return Ok(as_it_is());
    }
    if u64::from(width) * u64::from(height) > IMAGE_MAX_PIXELS {
        return Err(UnfitImage::TooManyPixels { width, height });
    }
    let (image, orientation) = decode(kind, file).map_err(|error| match error {
        image::ImageError::Limits(_) => UnfitImage::TooManyPixels { width, height },
        _ => UnfitImage::Damaged,
    })?;
    let is_small = width.max(height) <= IMAGE_MAX_SIDE && base64_len(file.len()) <= IMAGE_MAX_BASE64_BYTES;
    if is_small && orientation == Orientation::NoTransforms && kind != ImageKind::Bmp {
        return Ok(as_it_is());
    }
    shrink(image, orientation, kind, is_stopped)
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Decodes the image; of an animation, its first picture.
fn decode(kind: ImageKind, file: &[u8]) -> ImageResult<(DynamicImage, Orientation)> {
    let mut reader = ImageReader::with_format(Cursor::new(file), format(kind));
    let mut limits = Limits::default();
    limits.max_alloc = Some(IMAGE_DECODE_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    if decoder.total_bytes() > IMAGE_DECODE_BYTES {
        let kind = image::error::LimitErrorKind::InsufficientMemory;
        return Err(image::ImageError::Limits(image::error::LimitError::from_kind(kind)));
    }
    Ok((DynamicImage::from_decoder(decoder)?, orientation))
}

fn format(kind: ImageKind) -> ImageFormat {
    match kind {
        ImageKind::Png => ImageFormat::Png,
        ImageKind::Jpeg => ImageFormat::Jpeg,
        ImageKind::Gif => ImageFormat::Gif,
        ImageKind::Webp => ImageFormat::WebP,
        ImageKind::Bmp => ImageFormat::Bmp,
    }
}

/// Writes the image anew: within the sides at once, then ever worse and smaller until its text is short enough.
fn shrink(
    image: DynamicImage,
    orientation: Orientation,
    kind: ImageKind,
    is_stopped: &dyn Fn() -> bool,
) -> Result<FitImage, UnfitImage> {
    let (width, height) = fit_sides(image.width(), image.height());
    let original =
        if is_turned(orientation) { (image.height(), image.width()) } else { (image.width(), image.height()) };
    let mut image = without_alpha(image);
    if (width, height) != (image.width(), image.height()) {
        check(is_stopped)?;
        image = image.resize_exact(width, height, Resampling::CatmullRom);
    }
    image.apply_orientation(orientation);
    let mut pixels = image.into_rgb8();
    loop {
        check(is_stopped)?;
        if let Some((mime, bytes)) = encode(&pixels, kind, is_stopped)? {
            let shown = (pixels.width(), pixels.height());
            return Ok(FitImage { mime, data: STANDARD.encode(bytes), note: note(original, shown) });
        }
        let three_quarters = |side: u32| (side * 3 / 4).max(1);
        let (width, height) = (three_quarters(pixels.width()), three_quarters(pixels.height()));
        pixels = DynamicImage::from(pixels).resize_exact(width, height, Resampling::CatmullRom).into_rgb8();
    }
}

fn check(is_stopped: &dyn Fn() -> bool) -> Result<(), UnfitImage> {
    if is_stopped() { Err(UnfitImage::Stopped) } else { Ok(()) }
}

/// Tells whether making the image upright swaps its sides.
fn is_turned(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

/// Returns the largest size within the limit that has the same shape.
fn fit_sides(width: u32, height: u32) -> (u32, u32) {
    let longest = width.max(height);
    if longest <= IMAGE_MAX_SIDE {
        return (width, height);
    }
    let scaled = |side: u32| {
        let side = (u64::from(side) * u64::from(IMAGE_MAX_SIDE) + u64::from(longest) / 2) / u64::from(longest);
        u32::try_from(side).unwrap_or(IMAGE_MAX_SIDE).max(1)
    };
    (scaled(width), scaled(height))
}

/// Puts a white ground under what is transparent: JPEG has no transparency, and black text must stay legible.
fn without_alpha(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image;
    }
    let mut pixels = image.into_rgba8();
    for Rgba([red, green, blue, alpha]) in pixels.pixels_mut() {
        let opacity = u16::from(*alpha);
        for channel in [red, green, blue] {
            let mixed = (u16::from(*channel) * opacity + 255 * (255 - opacity)) / 255;
            *channel = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
        *alpha = u8::MAX;
    }
    pixels.into()
}

/// Returns the smallest encoding that is short enough, if one is. A photo is never tried as PNG.
fn encode(
    pixels: &RgbImage,
    kind: ImageKind,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<(&'static str, Vec<u8>)>, UnfitImage> {
    let mut best = None;
    if kind != ImageKind::Jpeg {
        best = Some((ImageKind::Png.mime(), png(pixels).map_err(|_| UnfitImage::Damaged)?));
    }
    for quality in QUALITIES {
        check(is_stopped)?;
        let bytes = jpeg(pixels, quality).map_err(|_| UnfitImage::Damaged)?;
        if best.as_ref().is_none_or(|(_, smallest)| bytes.len() < smallest.len()) {
            best = Some((ImageKind::Jpeg.mime(), bytes));
        }
        if best.as_ref().is_some_and(|(_, smallest)| base64_len(smallest.len()) <= IMAGE_MAX_BASE64_BYTES) {
            return Ok(best);
        }
    }
    Ok(None)
}

fn png(pixels: &RgbImage) -> ImageResult<Vec<u8>> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Adaptive);
    encoder.write_image(pixels.as_raw(), pixels.width(), pixels.height(), ExtendedColorType::Rgb8)?;
    Ok(bytes)
}

fn jpeg(pixels: &RgbImage, quality: u8) -> ImageResult<Vec<u8>> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, quality).encode(
        pixels.as_raw(),
        pixels.width(),
        pixels.height(),
        ExtendedColorType::Rgb8,
    )?;
    Ok(bytes)
}

/// Says how places of the shown image relate to the original, as pi says it.
fn note(original: (u32, u32), shown: (u32, u32)) -> Option<String> {
    if original == shown {
        return None;
    }
    let factor = f64::from(original.0) / f64::from(shown.0);
    Some(format!(
        "[Image: original {}x{}, displayed at {}x{}. Multiply coordinates by {factor:.2} to map to original image.]",
        original.0, original.1, shown.0, shown.1
    ))
}

#[cfg(test)]
mod tests;
