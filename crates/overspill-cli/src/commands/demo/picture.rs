//! TODO
use super::Show;
pub(super) fn draw(_show: &Show) -> String {
    String::new()
}
