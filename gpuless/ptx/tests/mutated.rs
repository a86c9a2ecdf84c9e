//! Damaged PTX: whatever is read gives a value or an error, and never a panic.
use ptx::module::{Function, Variable};
use ptx::text::{DefinitionKind, Index, Unit};

/// A text with every kind of declaration and operand.
const WHOLE: &str = include_str!("every_form.ptx");

/// Reads everything that a text defines; the number of things that could be read.
fn read(bytes: Vec<u8>) -> usize {
    let Ok(unit) = Unit::new("damaged", bytes) else { return 0 };
    let Ok(index) = Index::of(&unit) else { return 0 };
    let with_body = index.definitions.iter().filter(|definition| definition.body.is_some());
    with_body
        .filter(|definition| match definition.kind {
            DefinitionKind::Variable => Variable::of(&unit, definition).is_ok(),
            DefinitionKind::Kernel | DefinitionKind::Function => Function::of(&unit, definition).is_ok(),
        })
        .count()
}

/// Numbers that look random (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 1) as usize % limit.max(1)
    }
}

/// Changes, removes, doubles or moves some bytes.
fn damaged(numbers: &mut Numbers) -> Vec<u8> {
    const MARKS: &[u8] = b"{}()[]<>,;:@!+-=|.%\"/0x\n";
    let mut bytes = WHOLE.as_bytes().to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let len = numbers.below(12).min(bytes.len() - at);
        match numbers.below(9) {
            0..=1 => _ = bytes.drain(at..at + len),
            2..=3 => {
                let part = bytes[at..at + len].to_vec();
                let to = numbers.below(bytes.len());
                bytes.splice(to..to, part);
            }
            4..=5 if at < bytes.len() => bytes[at] = MARKS[numbers.below(MARKS.len())],
            6..=7 if at < bytes.len() => bytes[at] = numbers.below(256) as u8,
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn read_damaged(times: usize) {
    let mut numbers = Numbers(1);
    let some = (0..times).filter(|_| read(damaged(&mut numbers)) > 0).count();
    assert!(some * 10 > times, "damage leaves something to read: {some} of {times}");
}

#[test]
fn the_whole_text_is_read() {
    let count = WHOLE.matches("\n}").count() + WHOLE.matches(".global").count();
    assert!(count > 3 && read(WHOLE.into()) >= 5, "{count}");
}

#[test]
fn a_hundred_thousand_damaged_texts() {
    read_damaged(100_000);
}
