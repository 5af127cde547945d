//! Reads a settings block of another application as leniently as our own files; it writes nothing.

use jsonc_parser::parse_to_serde_value;
use serde_json::Value;

/// Parses JSON with comments and trailing commas; the error has line and column in words.
///
/// # Errors
/// What is not clear, and where.
pub fn parse_lenient(text: &str) -> Result<Value, String> {
    parse_to_serde_value(text.trim_start_matches('\u{feff}'), &crate::config::dialect())
        .map_err(|error| error.to_string())
}
