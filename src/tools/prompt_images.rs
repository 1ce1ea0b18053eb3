//! Images that clients send with a message: checked and made fit before anything of the message is kept.

use agentd_protocol::message::ContentBlock;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tokio_util::sync::CancellationToken;

use super::context::ToolOutput;
use super::fit_image::{FitImage, fit};
use super::image::ImageKind;
use super::registry::ToolRegistry;
use super::truncate::format_size;
use super::work::{Budget, Gate, Workers};
use crate::constants::{MESSAGE_IMAGES_BYTES, MESSAGE_MAX_IMAGES};

/// The standard alphabet, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Images of a message as they are stored and sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitImages {
    /// The images.
    pub blocks: Vec<ContentBlock>,
    /// What the model must know of those that were made smaller, for the message's text.
    pub notes: Vec<String>,
}

impl ToolRegistry {
    /// Makes the images of a message fit for models: the type is taken from the content, what is over the limits is
    /// made smaller unless `resize` is off. One image is open at a time in the whole daemon.
    ///
    /// Cancel safe: a dropped future leaves at most one worker that ends by itself.
    ///
    /// # Errors
    /// What is wrong with which image, and what can be done; then none of them is to be kept.
    pub async fn fit_images(
        &self,
        images: Vec<ContentBlock>,
        resize: bool,
        cancel: &CancellationToken,
    ) -> Result<FitImages, String> {
        if images.len() > MESSAGE_MAX_IMAGES {
            let count = images.len();
            return Err(format!("a message takes at most {MESSAGE_MAX_IMAGES} images, not {count}; send fewer"));
        }
        let mut fitted = FitImages::default();
        let mut bytes = 0;
        for (place, block) in images.into_iter().enumerate() {
            let failed = |why: String| format!("images[{place}]: {why}");
            let ContentBlock::Image { data, .. } = block else {
                return Err(failed("not an image block ({type: \"image\", data, mimeType})".to_owned()));
            };
            let image = fit_one(self.workers(), data, resize, cancel).await.map_err(failed)?;
            bytes += image.data.len();
            if bytes > MESSAGE_IMAGES_BYTES {
                let most = format_size(MESSAGE_IMAGES_BYTES);
                return Err(format!("the images of one message take more than {most} of base64 text; send fewer"));
            }
            fitted.notes.extend(image.note);
            fitted.blocks.push(ContentBlock::Image { data: image.data, mime_type: image.mime.to_owned() });
        }
        Ok(fitted)
    }
}

async fn fit_one(
    workers: &Workers,
    data: String,
    resize: bool,
    cancel: &CancellationToken,
) -> Result<FitImage, String> {
    let given_up = |output: ToolOutput| output.result.content[0].as_text().unwrap_or_default().to_owned();
    let _turn = workers.image_turn(cancel).await.map_err(given_up)?;
    let work = move |gate: &Gate| {
        let file = BASE64.decode(data).map_err(|error| format!("data is not base64: {error}"))?;
        let kind =
            ImageKind::of(&file).ok_or_else(|| "not a PNG, JPEG, GIF, WebP or BMP image by its content".to_owned())?;
        fit(kind, &file, resize, &|| gate.is_stopped()).map_err(|unfit| unfit.to_string())
    };
    workers.run(&Budget::start(cancel), work).await.map_err(given_up)?
}

#[cfg(test)]
mod tests;
