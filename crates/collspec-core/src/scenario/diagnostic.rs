//! Diagnostics: errors in a file with their place and the suggested fix.
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A byte range of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A scenario file's path and text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as the user wrote it.
    pub path: String,
    /// The complete text of the file.
    pub text: Arc<str>,
}

/// An error in a file, or a reason why a case cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The error, in lower case and without a full stop.
    pub message: String,
    /// The place in the file that is wrong.
    pub span: Span,
    /// Text at the caret; may be empty.
    pub label: String,
    /// Other relevant places, with a label each.
    pub related: Vec<(Span, String)>,
    /// The suggested fix.
    pub help: Option<String>,
    /// The matrix point or variant that has the error, if not all have it.
    pub case: Option<String>,
    /// True for a warning: the file is used anyway.
    pub warns: bool,
}

impl Diagnostic {
    /// Creates a diagnostic at a place.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: None,
            case: None,
            warns: false,
        }
    }
    /// Creates a warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { warns: true, ..Self::new(span, message) }
    }
    /// Adds a text at the caret.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }
    /// Adds another place.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }
    /// Adds a suggested fix.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}

/// Keeps the first of the diagnostics at each place, which are mostly the same mistake seen on many ranks.
pub fn dedupe(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen: FxHashSet<Span> = FxHashSet::default();
    diagnostics.into_iter().filter(|diagnostic| seen.insert(diagnostic.span)).collect()
}
