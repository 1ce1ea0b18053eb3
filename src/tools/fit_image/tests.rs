use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::tools::image::test_sample;

/// A picture without a pattern that a codec could use.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    let bytes = (0..width * height * 3).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    RgbImage::from_raw(width, height, bytes.collect()).unwrap()
}

fn plain(width: u32, height: u32) -> RgbImage {
    RgbImage::from_pixel(width, height, image::Rgb([200, 30, 30]))
}

fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.into().write_to(&mut file, format).unwrap();
    file.into_inner()
}

fn fit_whole(file: &[u8]) -> Result<FitImage, UnfitImage> {
    fit(ImageKind::of(file).unwrap(), file, true, &|| false)
}

fn decoded(fitted: &FitImage) -> DynamicImage {
    let bytes = STANDARD.decode(&fitted.data).unwrap();
    assert_eq!(ImageKind::of(&bytes).unwrap().mime(), fitted.mime, "the type is that of the content");
    image::load_from_memory(&bytes).unwrap()
}

#[track_caller]
fn check(name: &str, file: &[u8], size: (u32, u32), note: Option<&str>) {
    let fitted = fit_whole(file).unwrap();
    let shown = decoded(&fitted);
    assert_eq!(((shown.width(), shown.height()), fitted.note.as_deref()), (size, note), "{name}");
    assert!(fitted.data.len() <= IMAGE_MAX_BASE64_BYTES, "{name}: {} bytes", fitted.data.len());
}

#[test]
fn what_is_within_the_limits_stays_as_it_is() {
    for kind in [ImageKind::Png, ImageKind::Gif, ImageKind::Webp, ImageKind::Jpeg] {
        let file = test_sample(kind);
        let expected = FitImage { mime: kind.mime(), data: STANDARD.encode(&file), note: None };
        assert_eq!(fit_whole(&file), Ok(expected), "{kind:?}");
    }
}

#[test]
fn larger_ones_are_made_smaller() {
    let note = |original: &str, shown: &str, factor: &str| {
        format!(
            "[Image: original {original}, displayed at {shown}. Multiply coordinates by {factor} to map to original image.]"
        )
    };
    for (name, image, size, expected) in [
        ("wide", plain(9000, 100), (2000, 22), note("9000x100", "2000x22", "4.50")),
        ("phone", plain(117, 2532), (92, 2000), note("117x2532", "92x2000", "1.27")),
        ("a line", plain(1, 9000), (1, 2000), note("1x9000", "1x2000", "1.00")),
    ] {
        check(name, &encoded(image.clone(), ImageFormat::Png), size, Some(&expected));
        check(name, &encoded(image, ImageFormat::Jpeg), size, Some(&expected));
    }
}

#[test]
fn too_many_bytes_cost_quality_before_size() {
    let file = encoded(noise(1200, 1200), ImageFormat::Png);
    assert!(base64_len(file.len()) > IMAGE_MAX_BASE64_BYTES);
    check("noise", &file, (1200, 1200), None);
}

#[test]
fn bitmaps_become_what_providers_take() {
    let fitted = fit_whole(&encoded(plain(3, 2), ImageFormat::Bmp)).unwrap();
    assert_ne!(fitted.mime, "image/bmp");
    assert_eq!(decoded(&fitted).to_rgb8().dimensions(), (3, 2));
    let as_asked = fit(ImageKind::Bmp, &encoded(plain(3, 2), ImageFormat::Bmp), false, &|| false).unwrap();
    assert_ne!(as_asked.mime, "image/bmp");
}

#[test]
fn transparent_parts_become_white() {
    let clear = image::RgbaImage::from_pixel(2100, 10, Rgba([0, 0, 0, 0]));
    let fitted = fit_whole(&encoded(clear, ImageFormat::Png)).unwrap();
    assert_eq!(decoded(&fitted).to_rgb8().get_pixel(5, 5).0, [255; 3]);
}

/// A JPEG whose EXIF says how it is to be turned (6: a quarter to the right).
fn turned_jpeg(width: u32, height: u32) -> Vec<u8> {
    let mut file = encoded(plain(width, height), ImageFormat::Jpeg);
    let exif = b"Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let mut segment = vec![0xff, 0xe1];
    segment.extend(u16::try_from(exif.len() + 2).unwrap().to_be_bytes());
    segment.extend(exif);
    file.splice(2..2, segment);
    file
}

#[test]
fn pictures_are_made_upright() {
    check("small", &turned_jpeg(30, 20), (20, 30), None);
    let note =
        "[Image: original 1500x3000, displayed at 1000x2000. Multiply coordinates by 1.50 to map to original image.]";
    check("large", &turned_jpeg(3000, 1500), (1000, 2000), Some(note));
}

/// A PNG that claims a size.
fn claiming(width: u32, height: u32) -> Vec<u8> {
    let mut file = test_sample(ImageKind::Png);
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = crate::tools::image::test_crc32(&file[12..29]);
    file[29..33].copy_from_slice(&crc.to_be_bytes());
    file
}

#[test]
fn what_cannot_be_opened_is_named() {
    let huge = fit_whole(&claiming(30_000, 30_000)).unwrap_err();
    assert_eq!(huge.to_string(), "it has 30000x30000 pixels, at most 25 megapixels are opened. Make a smaller copy.");
    assert_eq!(fit_whole(&claiming(4, 4)), Err(UnfitImage::Damaged), "pixels are missing");
    let whole = encoded(noise(64, 64), ImageFormat::Jpeg);
    assert_eq!(fit_whole(&whole[..whole.len() / 2]), Err(UnfitImage::Damaged));
    let long = [test_sample(ImageKind::Png), vec![0; IMAGE_MAX_FILE_BYTES]].concat();
    assert_eq!(
        fit_whole(&long).unwrap_err().to_string(),
        "the file has more than 32.0MB, which is not opened. Make a smaller copy."
    );
}

#[test]
fn work_that_was_given_up_ends() {
    let file = encoded(plain(2100, 10), ImageFormat::Png);
    assert_eq!(fit(ImageKind::Png, &file, true, &|| true), Err(UnfitImage::Stopped));
}

#[test]
fn without_resizing_only_damage_counts() {
    let wide = encoded(plain(9000, 10), ImageFormat::Png);
    assert_eq!(fit(ImageKind::Png, &wide, false, &|| false).unwrap().data, STANDARD.encode(&wide));
    assert_eq!(fit(ImageKind::Png, &wide[..wide.len() - 3], false, &|| false), Err(UnfitImage::Damaged));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_bytes_never_pass_for_another_size(at in 0..10_000_usize, bit in 0..8_u8, which in 0..3_usize) {
        let format = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif][which];
        let mut file = encoded(noise(9, 7), format);
        let place = at % file.len();
        file[place] ^= 1 << bit;
        let Some(kind) = ImageKind::of(&file) else { return Ok(()) };
        if let Ok(fitted) = fit(kind, &file, true, &|| false) {
            let bytes = STANDARD.decode(&fitted.data).unwrap();
            prop_assert!(image::load_from_memory(&bytes).is_ok());
        }
    }

    #[test]
    fn sides_keep_their_shape(width in 1..70_000_u32, height in 1..70_000_u32) {
        let (w, h) = fit_sides(width, height);
        prop_assert!(w >= 1 && h >= 1 && w.max(h) == width.max(height).min(IMAGE_MAX_SIDE));
        let error = (f64::from(w) * f64::from(height) - f64::from(h) * f64::from(width)).abs();
        prop_assert!(error <= f64::from(width.max(height)) || w == 1 || h == 1);
    }
}
