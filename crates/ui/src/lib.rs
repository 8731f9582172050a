//! The built web page as bytes.
