//! What a rig tool put out, as a return that can be reduced, and back.

use overspill::ToolReturn;
use overspill::item::{Media, Payload};
use rig_core::message::{DocumentSourceKind, Image, MimeType, ToolResultContent};
use rig_core::tool::{ToolOutput, ToolResult};

/// The return; `None` for a result that stays as it is: one that tells of a failure, or of a call
/// that was not made.
pub(crate) fn to_return(result: &ToolResult) -> Option<ToolReturn> {
    if !result.is_success() {
        return None;
    }
    let value = result.output().as_content().iter().map(|content| match content {
        ToolResultContent::Text(text) => Payload::Text(text.text.clone()),
        ToolResultContent::Json { value } => Payload::Json(value.clone()),
        ToolResultContent::Image(image) => Payload::Media(media(image)),
    });
    Some(ToolReturn { value: value.collect(), ..ToolReturn::default() })
}

/// What stands in view of it. An image stands for itself: media are never turned into something
/// else, so the first that is left is the first that came.
pub(crate) fn to_output(output: ToolReturn, result: &ToolResult) -> Option<ToolOutput> {
    let mut images = result.output().as_content().iter().filter_map(|content| match content {
        ToolResultContent::Image(image) => Some(image.clone()),
        _ => None,
    });
    let payloads = output.value.into_iter().chain(output.content);
    let content = payloads.filter_map(|payload| match payload {
        Payload::Text(text) => Some(ToolResultContent::text(text)),
        Payload::Json(value) => Some(ToolResultContent::json(value)),
        Payload::Bytes(bytes) => {
            Some(ToolResultContent::text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Payload::Media(_) => images.next().map(ToolResultContent::Image),
    });
    ToolOutput::content(content.collect()).ok()
}

fn media(image: &Image) -> Media {
    let media_type = image.media_type.as_ref().map_or("image/*", MimeType::to_mime_type);
    let bytes = match &image.data {
        DocumentSourceKind::Raw(bytes) => bytes.clone(),
        DocumentSourceKind::Base64(text) => data_encoding::BASE64
            .decode(text.as_bytes())
            .unwrap_or_else(|_| text.clone().into_bytes()),
        // An address weighs nothing next to a picture.
        _ => Vec::new(),
    };
    Media { media_type: media_type.to_owned(), bytes }
}
