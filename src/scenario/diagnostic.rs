//! What is wrong with a file, where, and what would be right.
use std::sync::Arc;

/// A byte range of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A scenario file's path as shown to people, and its text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As the user wrote it.
    pub path: String,
    /// The whole text.
    pub text: Arc<str>,
}

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, lower case, no full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Words at the caret; may be empty.
    pub label: String,
    /// Other places that matter, with a few words each.
    pub related: Vec<(Span, String)>,
    /// What would be right.
    pub help: Option<String>,
    /// The matrix point or variant that shows the fault, if not all do.
    pub case: Option<String>,
}

impl Diagnostic {
    /// A fault at a place.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, label: String::new(), related: Vec::new(), help: None, case: None }
    }
    /// With words at the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }
    /// With a second place.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }
    /// With a cure.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}
