//! Reads a topology file: a stranger's XML, of which only what NCCL uses is kept.
use super::element::Element;
use super::kinds::MachineError;
use collspec_core::printable::one_line;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::path::Path;

/// The longest file: that of a machine with 32 GPUs has some tens of kilobytes.
pub(super) const MOST_BYTES: u64 = 4 << 20;
/// The deepest nesting: PCI bridges below each other.
const DEEPEST: usize = 32;
/// The most elements: NCCL reads no more of one machine.
const MOST_ELEMENTS: usize = 1024;
/// The longest value that NCCL has room for.
const LONGEST_VALUE: usize = 250;

/// The elements that describe a machine, and their attributes. Others are of one run (ranks, what to keep) or of one machine among many (host
/// hashes, GUIDs), and would be wrong for another run or for a second node.
const KNOWN: [(&str, &[&str]); 8] = [
    ("system", &["version"]),
    ("cpu", &["numaid", "affinity", "arch", "vendor", "familyid", "modelid"]),
    (
        "pci",
        &["busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width"],
    ),
    ("gpu", &["dev", "sm", "gdr"]),
    ("nvlink", &["target", "count", "tclass"]),
    ("c2c", &["bw", "count"]),
    ("nic", &[]),
    ("net", &["name", "dev", "latency", "speed", "port", "maxconn", "gdr", "guid"]),
];

/// The tree of a file's text. `left_out` are the elements that are not of a machine.
pub(super) fn topology(path: &Path, text: &str) -> Result<(Element, Vec<String>), MachineError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut open: Vec<Element> = Vec::new();
    let (mut root, mut left_out, mut count, mut skipping) = (None, Vec::new(), 0, 0usize);
    let mut lines = Lines { text, at: 0, line: 1 };
    loop {
        let line = lines.of(reader.buffer_position());
        let wrong = |why: String| MachineError::at(path, line, why);
        let event = reader.read_event().map_err(|error| {
            let line = lines.of(reader.error_position());
            MachineError::at(path, line, error.to_string())
        })?;
        match event {
            Event::Start(_) if skipping > 0 => skipping += 1,
            Event::Empty(_) if skipping > 0 => {}
            Event::Start(start) if !is_known(&start) => {
                left_out.push(foreign(&start, line));
                skipping = 1;
            }
            Event::Empty(start) if !is_known(&start) => left_out.push(foreign(&start, line)),
            Event::End(_) if skipping > 0 => skipping -= 1,
            Event::Start(start) => {
                count += 1;
                if open.len() >= DEEPEST || count > MOST_ELEMENTS {
                    return Err(wrong(format!(
                        "more than {DEEPEST} elements in each other, or {MOST_ELEMENTS} in all"
                    )));
                }
                open.push(element(&start, line).map_err(wrong)?);
            }
            Event::Empty(start) => {
                count += 1;
                let made = element(&start, line).map_err(wrong)?;
                put(made, &mut open, &mut root).map_err(wrong)?;
            }
            Event::End(_) => {
                let closed = open.pop().ok_or_else(|| wrong("an element ends that has not begun".to_owned()))?;
                put(closed, &mut open, &mut root).map_err(wrong)?;
            }
            Event::Eof if !open.is_empty() || skipping > 0 => {
                return Err(wrong("the file ends within an element".to_owned()));
            }
            Event::Eof => break,
            // Comments, declarations and the spaces between elements.
            _ => {}
        }
    }
    let root = root.ok_or_else(|| MachineError::at(path, 1, "there is no <system> in it".to_owned()))?;
    Ok((root, left_out))
}

/// Lines by the position of a byte, which only grows.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, position: u64) -> usize {
        let end = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        if let Some(passed) = self.text.as_bytes().get(self.at..end) {
            self.line += passed.iter().filter(|byte| **byte == b'\n').count();
            self.at = end;
        }
        self.line
    }
}

fn is_known(start: &BytesStart<'_>) -> bool {
    KNOWN.iter().any(|(name, _)| name.as_bytes() == start.name().as_ref())
}

fn foreign(start: &BytesStart<'_>, line: usize) -> String {
    format!("line {line}: <{}>", one_line(&String::from_utf8_lossy(start.name().as_ref())))
}

fn element(start: &BytesStart<'_>, line: usize) -> Result<Element, String> {
    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
    let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, attributes)| *attributes).unwrap_or_default();
    let mut made = Element { line, ..Element::new(&name, &[]) };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        if !known.contains(&key.as_str()) {
            continue;
        }
        let value = String::from_utf8_lossy(&attribute.value);
        let value = quick_xml::escape::unescape(&value).map_err(|error| error.to_string())?.into_owned();
        if value.len() > LONGEST_VALUE || value.chars().any(char::is_control) {
            return Err(format!("{name} {key}: NCCL reads at most {LONGEST_VALUE} bytes of text"));
        }
        made.set(&key, &value);
    }
    Ok(made)
}

/// Puts a complete element into the one around it, or makes it the root.
fn put(element: Element, open: &mut [Element], root: &mut Option<Element>) -> Result<(), String> {
    match (open.last_mut(), element.name.as_str()) {
        (Some(around), name) if name != "system" => around.children.push(element),
        (None, "system") if root.is_none() => *root = Some(element),
        (_, name) => return Err(format!("<{name}> cannot be here: a file has one <system>, and all else is in it")),
    }
    Ok(())
}
