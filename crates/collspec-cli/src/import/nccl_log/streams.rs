//! Names of streams. Each rank has its own; those that are used for one call of a step, or for the messages of one family, have one name.
use super::super::call::Call;
use super::super::comms::Comms;
use super::super::program::Units;
use std::collections::{BTreeMap, HashMap};

/// A rank and the index of its stream.
type Stream = (usize, usize);

/// The streams of one name, by rank: at most one of each.
type Class = BTreeMap<usize, usize>;

#[derive(Debug, Default)]
struct Classes {
    of: HashMap<Stream, usize>,
    members: Vec<Class>,
}

impl Classes {
    fn class(&mut self, stream: Stream) -> usize {
        let next = self.members.len();
        let class = *self.of.entry(stream).or_insert(next);
        if class == next {
            self.members.push(Class::from([stream]));
        }
        class
    }

    /// Gives two streams one name, unless a rank would use two streams under it.
    fn join(&mut self, one: Stream, other: Stream) {
        let (one, other) = (self.class(one), self.class(other));
        let has_other =
            |(rank, stream): (&usize, &usize)| self.members[other].get(rank).is_some_and(|own| own != stream);
        if one == other || self.members[one].iter().any(has_other) {
            return;
        }
        let moved = std::mem::take(&mut self.members[one]);
        moved.iter().for_each(|(rank, stream)| _ = self.of.insert((*rank, *stream), other));
        self.members[other].extend(moved);
    }
}

/// The name of each stream, from the units of steps: `main`, `s1`, ... in the order of their use on the lowest rank.
pub fn names<'a>(
    steps: impl Iterator<Item = &'a [(usize, u32)]>,
    units: &Units,
    comms: &Comms,
) -> HashMap<Stream, String> {
    let mut classes = Classes::default();
    let mut of_messages: HashMap<usize, Stream> = HashMap::new();
    for parts in steps {
        let mut last: HashMap<usize, Stream> = HashMap::new();
        for (rank, unit) in parts {
            for (at, issued) in units[*unit].calls.iter().enumerate() {
                let stream = (*rank, issued.stream);
                classes.class(stream);
                let before = match issued.call {
                    Call::Collective(_) => last.insert(at, stream),
                    Call::Message(_) => of_messages.insert(comms.family(issued.comm), stream),
                };
                if let Some(before) = before {
                    classes.join(before, stream);
                }
            }
        }
    }
    let mut order: Vec<(usize, &Class)> =
        classes.members.iter().enumerate().filter(|(_, class)| !class.is_empty()).collect();
    order.sort_by_key(|(_, class)| class.iter().next());
    let numbers: HashMap<usize, usize> =
        order.iter().enumerate().map(|(number, (class, _))| (*class, number)).collect();
    let name = |class: &usize| match numbers[class] {
        0 => "main".to_owned(),
        number => format!("s{number}"),
    };
    classes.of.iter().map(|(stream, class)| (*stream, name(class))).collect()
}
