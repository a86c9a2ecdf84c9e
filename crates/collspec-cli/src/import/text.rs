//! The text of a scenario: lines with comments, which are aligned where they follow each other.
use collspec_core::printable::{bounded_to, printable, toml_string};

/// Columns up to which comments are aligned.
const MOST_ALIGNED: usize = 110;
/// Characters of a line and its comment, so that a diagnostic at the line shows both.
const MAX_LINE: usize = 128;
/// Characters of a comment that are shown in any case.
const MIN_COMMENT: usize = 120;
/// Characters of a text that is not at a line.
const MAX_TEXT: usize = 300;

/// A step, and the steps in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The table without its last brace: `{ op = "wait"`.
    pub head: String,
    /// What is said about it.
    pub comment: String,
    /// The steps of a group or a loop.
    pub steps: Vec<Node>,
}

impl Node {
    pub fn new(head: String) -> Self {
        Self { head, ..Self::default() }
    }

    /// The step on one line, without comments.
    pub fn on_one_line(&self) -> String {
        if self.steps.is_empty() {
            return format!("{} }}", self.head);
        }
        let steps: Vec<String> = self.steps.iter().map(Node::on_one_line).collect();
        format!("{}, steps = [{}] }}", self.head, steps.join(", "))
    }
}

/// The text of a scenario as it grows.
#[derive(Debug, Default)]
pub struct Text {
    lines: Vec<(String, String)>,
}

impl Text {
    /// Adds a line that is a comment.
    pub fn remark(&mut self, remark: &str) {
        self.lines.push((format!("# {}", bounded_to(&printable(remark), MAX_TEXT)), String::new()));
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl Into<String>) {
        self.commented(text, "");
    }

    /// Adds a line with a comment.
    pub fn commented(&mut self, text: impl Into<String>, comment: &str) {
        self.lines.push((text.into(), printable(comment).into_owned()));
    }

    /// Adds the list of steps.
    pub fn steps(&mut self, steps: &[Node]) {
        self.line("steps = [");
        self.nodes(steps, 1);
        self.line("]");
    }

    fn nodes(&mut self, nodes: &[Node], depth: usize) {
        let indent = "  ".repeat(depth);
        for node in nodes {
            let short = node.on_one_line();
            let comments = node.steps.iter().any(|step| !step.comment.is_empty() || !step.steps.is_empty());
            if node.steps.is_empty() || (!comments && short.len() + indent.len() < MOST_ALIGNED) {
                self.commented(format!("{indent}{short},"), &node.comment);
                continue;
            }
            self.commented(format!("{indent}{}, steps = [", node.head), &node.comment);
            self.nodes(&node.steps, depth + 1);
            self.line(format!("{indent}] }},"));
        }
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for block in self.lines.chunk_by(|(_, one), (_, other)| one.is_empty() == other.is_empty()) {
            let widths = block.iter().map(|(line, _)| line.chars().count());
            let width = widths.filter(|width| *width <= MOST_ALIGNED).max().unwrap_or(0);
            for (line, comment) in block {
                if comment.is_empty() {
                    writeln!(f, "{line}")?;
                    continue;
                }
                let comment = bounded_to(comment, MAX_LINE.saturating_sub(line.chars().count()).max(MIN_COMMENT));
                let width = width.min(MAX_LINE.saturating_sub(comment.chars().count()));
                writeln!(f, "{line:width$}  # {comment}")?;
            }
        }
        Ok(())
    }
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    toml_string(&bounded_to(&printable(text), MAX_TEXT))
}
