//! Files that are images, known by what they hold and not by their names; it changes none.

use aion_core::transcript::Image;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use imagesize::ImageType;

/// The largest file: services take 5 MiB of Base64.
pub(super) const MAX_BYTES: usize = 3_840 * 1024;
/// The longest side that every service takes, in pixels.
const MAX_SIDE: usize = 8_000;

/// What a file is, if it is an image that models are shown.
pub(super) fn kind(content: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(content).ok()? {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// The same for bytes that are not known to be an image.
pub(crate) fn shown_image(content: &[u8], shown: &str) -> Result<(String, Image), String> {
    let media_type = kind(content).ok_or_else(|| "it is of no kind that is shown".to_owned())?;
    read(content, media_type, shown)
}

/// An image, and what is told of it. An error is for the model.
pub(super) fn read(
    content: &[u8],
    media_type: &'static str,
    shown: &str,
) -> Result<(String, Image), String> {
    let kind = media_type.trim_start_matches("image/");
    let bytes = content.len();
    if bytes > MAX_BYTES {
        return Err(format!(
            "{shown} is a {kind} image of {bytes} bytes; images over {MAX_BYTES} bytes are not shown. Make a smaller copy of it."
        ));
    }
    let size = imagesize::blob_size(content)
        .map_err(|_| format!("{shown} begins as a {kind} image, and cannot be read as one."))?;
    let (width, height) = (size.width, size.height);
    if width == 0 || height == 0 || width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!(
            "{shown} is a {kind} image of {width} x {height} pixels; images with a side over {MAX_SIDE} pixels are not shown. Make a smaller copy of it."
        ));
    }
    let text = format!("{shown}: a {kind} image, {width} x {height} pixels, {bytes} bytes.");
    let data = BASE64_STANDARD.encode(content).into();
    Ok((text, Image { media_type: media_type.to_owned(), data }))
}
