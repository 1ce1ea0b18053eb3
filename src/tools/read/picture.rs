//! An image that is read: opened one at a time in the whole daemon, made fit for models, or described.

use std::fs::File;
use std::io::{self, Read as _};

use agentd_protocol::message::ContentBlock;
use serde_json::json;

use super::read_error;
use crate::constants::IMAGE_MAX_FILE_BYTES;
use crate::tools::context::{ToolContext, ToolOutput};
use crate::tools::fit_image::{FitImage, UnfitImage, fit};
use crate::tools::image::ImageKind;
use crate::tools::work::{Budget, Gate, Workers, aborted};

/// An image file of which the head was read.
pub(super) struct Picture {
    pub(super) kind: ImageKind,
    pub(super) head: Vec<u8>,
    pub(super) file: File,
}

impl Picture {
    /// Reads the rest and gives what the model gets.
    ///
    /// # Errors
    /// The result to give when time is up, the call was aborted, or the file cannot be read.
    pub(super) async fn show(self, context: &ToolContext, workers: &Workers) -> Result<ToolOutput, ToolOutput> {
        // Taken before the file is in memory: images that wait for their turn take none. Held here and not by the
        // worker, so that one that hangs in the file system does not keep all others waiting.
        let _turn = workers.image_turn(&context.cancel).await?;
        let (kind, resize) = (self.kind, context.resizes_images);
        let fitted = workers
            .run(&Budget::start(&context.cancel), move |gate: &Gate| {
                let bytes = self.read()?;
                Ok::<_, io::Error>(fit(kind, &bytes, resize, &|| gate.is_stopped()))
            })
            .await?
            .map_err(|error| read_error(&error))?;
        match fitted {
            Ok(image) => Ok(shown(image, context.text_only_model.as_deref())),
            Err(UnfitImage::Stopped) => Err(aborted()),
            Err(unfit) => {
                let text = format!("{}\n[Image not shown: {unfit}]", title(kind.mime()));
                Ok(ToolOutput::structured_text(text))
            }
        }
    }

    fn read(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = self.head;
        // One byte more than allowed shows that it is too large, also when the file is growing.
        let limit = IMAGE_MAX_FILE_BYTES + 1 - bytes.len();
        self.file.by_ref().take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn title(mime: &str) -> String {
    format!("Read image file [{mime}]")
}

/// `text_only_model` is the model that will not see it; the image is kept all the same, for a later one that does.
fn shown(image: FitImage, text_only_model: Option<&str>) -> ToolOutput {
    let FitImage { mime, data, note } = image;
    let text = note.map_or_else(|| title(mime), |note| format!("{}\n{note}", title(mime)));
    let structured = json!({ "type": "image", "data": data, "mimeType": mime, "note": text });
    let mut output = ToolOutput::text(text);
    output.result.content.push(ContentBlock::Image { data, mime_type: mime.to_owned() });
    output.result.structured_content = Some(structured);
    match text_only_model {
        Some(model) => output.with_details(json!({ "imageUnsupportedByModel": model })),
        None => output,
    }
}
