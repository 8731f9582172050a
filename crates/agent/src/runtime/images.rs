//! Which images of a conversation a model is sent; it reads no file.

use crate::provider::{Message, ModelRequest, ToolResult};

/// The most images in one request: services want smaller ones where there are more.
const IMAGES: usize = 20;
/// The most bytes of them, as they are sent: the smallest limit of a service is 20 MB for all.
const BYTES: usize = 12 * 1024 * 1024;
/// What stands for an image that is older than those.
const OLD: &str = "[An image was here. Read the file again if you need it.]";
/// What stands for an image where the service has refused a request with images.
const REFUSED: &str =
    "[An image was here, which the model's service does not take. Tell what you cannot see.]";

/// Keeps the newest images, within the limits of one request.
pub(super) fn keep_newest(messages: &mut [Message]) {
    let (mut images, mut bytes) = (0, 0);
    for result in results(messages).rev() {
        let own: usize = result.images.iter().map(|image| image.data.as_str().len()).sum();
        images += result.images.len();
        bytes += own;
        if images > IMAGES || bytes > BYTES {
            // What is older goes too, so that the beginning of a conversation stays the same.
            images = IMAGES + 1;
            leave_out(result, OLD);
        }
    }
}

/// Leaves out all images, because the service refused a request that has some; false where it has
/// none.
pub(super) fn refuse(request: &mut ModelRequest) -> bool {
    let mut some = false;
    for result in results(&mut request.messages) {
        some |= leave_out(result, REFUSED);
    }
    some
}

fn results(messages: &mut [Message]) -> impl DoubleEndedIterator<Item = &mut ToolResult> {
    messages.iter_mut().flat_map(|message| match message {
        Message::Results { results, .. } => results.as_mut_slice().iter_mut(),
        Message::Given { .. } | Message::Answer { .. } => [].iter_mut(),
    })
}

fn leave_out(result: &mut ToolResult, instead: &str) -> bool {
    let some = !result.images.is_empty();
    if some {
        result.images.clear();
        result.text.push('\n');
        result.text.push_str(instead);
    }
    some
}

#[cfg(test)]
mod tests {
    use aion_core::id::TurnId;
    use aion_core::transcript::Image;

    use super::*;

    fn shows(call: usize, bytes: usize) -> Message {
        let image = Image { media_type: "image/png".into(), data: "x".repeat(bytes).into() };
        let result = ToolResult {
            call: call.to_string(),
            text: "seen".into(),
            ok: true,
            images: vec![image],
        };
        Message::Results { turn: TurnId(1), results: vec![result] }
    }

    fn shown(mut messages: Vec<Message>) -> Vec<bool> {
        keep_newest(&mut messages);
        results(&mut messages).map(|result| result.images.len() == 1).collect()
    }

    #[test]
    fn the_newest_images_stay_and_none_older_than_one_that_is_left_out() {
        let many = shown((0..22).map(|call| shows(call, 1)).collect());
        assert_eq!(many.iter().filter(|shown| **shown).count(), 20);
        assert!(!many[1] && many[2]);
        assert_eq!(shown(vec![shows(1, 1), shows(2, BYTES), shows(3, 1)]), [false, false, true]);
        assert_eq!(shown(vec![shows(1, 1), shows(2, 1)]), [true, true]);
    }
}
