use agentd_protocol::message::ContentBlock;
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tools::image::test_sample;

fn image(data: impl Into<String>, mime: &str) -> ContentBlock {
    ContentBlock::Image { data: data.into(), mime_type: mime.to_owned() }
}

async fn fit_all(images: Vec<ContentBlock>) -> Result<FitImages, String> {
    ToolRegistry::builtin().fit_images(images, true, &CancellationToken::new()).await
}

#[tokio::test]
async fn the_type_is_that_of_the_content() {
    let png = BASE64.encode(test_sample(ImageKind::Png));
    let fitted = fit_all(vec![image(&png, "image/jpeg"), image(png.trim_end_matches('='), "")]).await.unwrap();
    assert_eq!(fitted, FitImages { blocks: vec![image(&png, "image/png"); 2], notes: Vec::new() });
}

#[tokio::test]
async fn one_that_is_wrong_is_named() {
    let png = BASE64.encode(test_sample(ImageKind::Png));
    let cut = BASE64.encode(&test_sample(ImageKind::Jpeg)[..100]);
    for (second, expected) in [
        (image("no base64!", "image/png"), "images[1]: data is not base64: Invalid symbol 32, offset 2."),
        (image("", "image/png"), "images[1]: not a PNG, JPEG, GIF, WebP or BMP image by its content"),
        (
            image(BASE64.encode("<svg/>"), "image/svg+xml"),
            "images[1]: not a PNG, JPEG, GIF, WebP or BMP image by its content",
        ),
        (image(cut, "image/jpeg"), "images[1]: the file is damaged or cut off."),
        (ContentBlock::text("x"), "images[1]: not an image block ({type: \"image\", data, mimeType})"),
    ] {
        assert_eq!(fit_all(vec![image(&png, "image/png"), second]).await.unwrap_err(), expected);
    }
    let many = fit_all(vec![image(&png, "image/png"); MESSAGE_MAX_IMAGES + 1]).await.unwrap_err();
    assert_eq!(many, "a message takes at most 100 images, not 101; send fewer");
}

#[tokio::test]
async fn one_image_is_open_at_a_time() {
    let tools = ToolRegistry::builtin();
    let cancel = CancellationToken::new();
    let turn = tools.workers().image_turn(&cancel).await.unwrap();
    let png = image(BASE64.encode(test_sample(ImageKind::Png)), "image/png");
    let fitting = tools.fit_images(vec![png], true, &cancel);
    tokio::pin!(fitting);
    assert!(futures_util::poll!(&mut fitting).is_pending());
    drop(turn);
    assert_eq!(fitting.await.unwrap().blocks.len(), 1);
}
