//! The calls of each rank as units: calls that were launched together are one.
use super::super::call::{Call, Collective, Issued, Message, Unit, is_rooted};
use super::super::program::{Item, Programs, Units};
use super::entry::{Entry, Part, State, What};
use super::groups::{Calls, Groups, Placed};
use super::pieces::{Given, Pieces, pieces, sum};
use collspec_core::num::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// Calls that were launched together.
#[derive(Clone, Debug)]
pub struct Launch {
    pub comm: usize,
    /// At least one.
    pub entries: Vec<Arc<Entry>>,
    pub state: State,
}

/// What is made of an all_to_all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllToAlls {
    #[default]
    /// Its pieces, as far as the sizes of all ranks under one number show them.
    Pieces,
    /// A call without sizes. Ranks may give it any, and where a rank has left out a call, those of one number are of different calls.
    Sizeless,
}

/// An all_to_all whose ranks receive something else than is sent to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unfit {
    pub comm: usize,
    pub number: u64,
}

/// The programs of all ranks, and what they were made of.
#[derive(Debug, Default)]
pub struct Launches {
    all_to_alls: AllToAlls,
    pub units: Units,
    pub programs: Programs,
    /// By rank; the items of the programs have its indices.
    pub made: Vec<Vec<Launch>>,
    pub has_guessed_pieces: bool,
    pub has_guessed_roots: bool,
    /// True if ranks await other pieces of an all_to_all than are sent to them.
    pub all_to_alls_disagree: bool,
    /// By communicator and number.
    pub unfit: Vec<Unfit>,
}

/// What all members gave to each call.
type AllGiven = HashMap<(usize, u64, &'static str), Vec<Option<Given>>>;

fn are_together(one: &Placed, other: &Placed) -> bool {
    one.comm == other.comm && other.entry.continues(&one.entry)
}

/// The launches of which the dumps have only the end: torch before 2.7 records no more of collectives, and a ring buffer may have lost
/// the rest.
pub fn ends_alone(calls: &Calls) -> usize {
    let launches = calls.iter().flatten().flat_map(|own| own.chunk_by(are_together));
    launches.filter(|launch| launch.iter().all(|placed| placed.entry.what == What::End)).count()
}

/// Makes units of the calls.
pub fn launches(calls: &Calls, groups: &Groups, all_to_alls: AllToAlls) -> Launches {
    let mut given: AllGiven = HashMap::new();
    for placed in calls.iter().flatten().flatten() {
        let What::Collective(op @ ("gather" | "scatter" | "all_to_all")) = placed.entry.what else { continue };
        let members = given.entry((placed.comm, placed.entry.number, op));
        let members = members.or_insert_with(|| vec![None; groups.ranks[placed.comm].len()]);
        let Entry { inputs, outputs, .. } = &*placed.entry;
        members[placed.me] = Some(Given { inputs: inputs.clone(), outputs: outputs.clone() });
    }
    let of_call = |((comm, number, op), members): (&(usize, u64, &str), &Vec<_>)| {
        Some(((*comm, *number), (*op == "all_to_all").then(|| pieces(members))??))
    };
    let mut pieces: HashMap<(usize, u64), Pieces> = given.iter().filter_map(of_call).collect();
    let unfit = pieces.iter().filter(|(_, pieces)| pieces.got.is_some());
    let mut unfit: Vec<Unfit> = unfit.map(|((comm, number), _)| Unfit { comm: *comm, number: *number }).collect();
    unfit.sort_unstable();
    if all_to_alls == AllToAlls::Sizeless {
        pieces.clear();
    }
    let mut launches = Launches { all_to_alls, unfit, ..Launches::default() };
    for own in calls {
        let Some(own) = own else {
            launches.programs.push(None);
            launches.made.push(Vec::new());
            continue;
        };
        let mut program = Vec::new();
        let mut made = Vec::new();
        for launch in own.chunk_by(are_together) {
            let calls: Vec<&Placed> = launch.iter().filter(|placed| placed.entry.what != What::End).collect();
            let Some(first) = calls.first() else { continue };
            // Of calls that were launched together, torch follows the launch and not each call.
            let end = launch.last().filter(|placed| placed.entry.what == What::End);
            let state =
                end.or(calls.iter().copied().max_by_key(|placed| placed.entry.state)).unwrap_or(first).entry.state;
            let n = groups.ranks[first.comm].len();
            // An all_gather or reduce_scatter of unlike sizes: a call for each rank's part, in the order of the ranks.
            let is_of_parts = calls.len() == n && calls.iter().all(|placed| placed.entry.is_of_parts());
            let mut both: Vec<(Call, Arc<Entry>)> = Vec::new();
            for (at, placed) in calls.iter().enumerate() {
                let root = is_of_parts.then_some(at);
                let made = launches.messages(placed, &pieces).unwrap_or_else(|| {
                    let parts = placed.entry.parts();
                    parts.into_iter().map(|part| launches.call(placed, part, root, n, &given, &pieces)).collect()
                });
                both.extend(made.into_iter().map(|call| (call, placed.entry.clone())));
            }
            if both.iter().all(|(_, entry)| entry.is_message()) {
                both.sort_by_key(|(call, _)| call.place_in_group(n));
            }
            let comm = first.comm;
            let issued = |(call, entry)| (Issued { comm, stream: 0, call }, entry);
            let (calls, entries) = both.into_iter().map(issued).unzip();
            let unit = launches.units.index(Unit { calls });
            program.push(Item { unit, at: made.len() as u32, done: state == State::Completed });
            made.push(Launch { comm, entries, state });
        }
        launches.programs.push(Some(program));
        launches.made.push(made);
    }
    launches
}

impl Launches {
    /// How many launches the programs of all ranks have.
    pub fn items(&self) -> usize {
        self.programs.iter().flatten().map(Vec::len).sum()
    }

    /// One of the calls of an entry.
    fn call(
        &mut self,
        placed: &Placed,
        Part { dtype, input, output }: Part,
        root: Option<usize>,
        n: usize,
        given: &AllGiven,
        pieces: &HashMap<(usize, u64), Pieces>,
    ) -> Call {
        let entry = &placed.entry;
        let dtype = dtype.unwrap_or(DType::F32);
        let given_or_got = if input > 0 { input } else { output };
        let op = match entry.what {
            What::Collective(op) => op,
            What::Send(peer) | What::Recv(peer) => {
                let (sends, distance) = (matches!(entry.what, What::Send(_)), (peer + n - placed.me) % n);
                return Call::Message(Message { sends, distance, dtype, count: given_or_got, offset: 0 });
            }
            What::End => "barrier",
        };
        let members = given.get(&(placed.comm, entry.number, op)).map_or(&[][..], Vec::as_slice);
        let mut call = Collective {
            op,
            reduce: "sum",
            factor: None,
            dtype,
            count: if is_rooted(op) { given_or_got } else { input },
            root: root.unwrap_or(0),
            in_place: entry.in_place,
            offset: 0,
            pieces: Vec::new(),
        };
        match op {
            "gather" => call.root = self.root(members, |given| &given.outputs),
            "scatter" => {
                // A list on the root, or on all ranks the part that each gets.
                let has_list = |given: &Given| given.inputs.len() == n && n > 1;
                let lists = members.iter().flatten().any(has_list);
                call.root = self.root(members, |given| if lists { &given.inputs } else { &given.outputs });
                call.count = if has_list(&Given { inputs: entry.inputs.clone(), outputs: Vec::new() }) {
                    input
                } else {
                    (if lists { output } else { given_or_got }).saturating_mul(n as u64)
                };
            }
            "broadcast" | "reduce" => self.has_guessed_roots |= n > 1 && root.is_none(),
            "all_to_all" if self.all_to_alls == AllToAlls::Sizeless => (call.op, call.count) = ("all_to_all_v", 0),
            "all_to_all" => match pieces.get(&(placed.comm, entry.number)) {
                Some(Pieces { table, are_guessed, .. }) => {
                    self.has_guessed_pieces |= are_guessed;
                    (call.op, call.pieces) = ("all_to_all_v", table[placed.me].clone());
                }
                None => self.has_guessed_pieces |= entry.inputs.len() == 1 && n > 1,
            },
            _ => {}
        }
        Call::Collective(call)
    }

    /// The messages of an all_to_all whose ranks disagree about its pieces.
    fn messages(&mut self, placed: &Placed, pieces: &HashMap<(usize, u64), Pieces>) -> Option<Vec<Call>> {
        let is_all_to_all = placed.entry.what == What::Collective("all_to_all");
        let pieces = pieces.get(&(placed.comm, placed.entry.number)).filter(|_| is_all_to_all)?;
        let (sent, got) = (&pieces.table[placed.me], &pieces.got.as_ref()?[placed.me]);
        self.has_guessed_pieces |= pieces.are_guessed;
        self.all_to_alls_disagree = true;
        let (n, dtype) = (sent.len(), placed.entry.dtypes.first().copied().flatten().unwrap_or(DType::F32));
        let message = |sends, (peer, count): (usize, &u64)| {
            let distance = (peer + n - placed.me) % n;
            (*count > 0).then_some(Call::Message(Message { sends, distance, dtype, count: *count, offset: 0 }))
        };
        let sent = sent.iter().enumerate().filter_map(|piece| message(true, piece));
        let mut calls: Vec<Call> =
            sent.chain(got.iter().enumerate().filter_map(|piece| message(false, piece))).collect();
        calls.sort_by_key(|call| call.place_in_group(n));
        Some(calls)
    }

    /// The only member that has this list.
    fn root(&mut self, members: &[Option<Given>], list: impl Fn(&Given) -> &Vec<u64>) -> usize {
        let has_list = |given: &Option<Given>| given.as_ref().is_some_and(|given| sum(list(given)) > 0);
        let mut roots = members.iter().enumerate().filter(|(_, given)| has_list(given));
        match (roots.next(), roots.next()) {
            (Some((root, _)), None) => root,
            _ => {
                self.has_guessed_roots = true;
                0
            }
        }
    }
}
