//! The calls of each communicator by rank, reduced to what is compared.
use super::job::Job;
use crate::import::call::Unit;
use crate::import::flight_recorder::Stack;
use crate::import::program::Item;
use std::collections::HashMap;
use std::hash::Hash;

/// Calls with equal tokens are the same call of the program, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// What is called: operation, type, count, root and communicator.
    pub shape: u32,
    /// The lines of the program that led to it, if they are known.
    pub stack: Option<u32>,
}

/// A collective of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The index in the rank's program.
    pub index: usize,
    pub token: Token,
    pub done: bool,
}

/// The collectives that a member of a communicator makes in it.
#[derive(Clone, Debug)]
pub struct Member {
    pub rank: usize,
    /// `None` if nothing is known of the rank.
    pub calls: Option<Vec<Place>>,
}

/// The calls of all ranks.
#[derive(Debug)]
pub struct Sequences {
    /// By communicator.
    pub comms: Vec<Vec<Member>>,
    /// By rank: all that it makes, collectives and messages.
    pub programs: Vec<Option<Vec<Token>>>,
}

/// Numbers for what is equal.
#[derive(Debug)]
struct Numbers<T>(HashMap<T, u32>);

impl<T: Eq + Hash> Numbers<T> {
    fn number(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }
}

impl Sequences {
    pub fn of(job: &Job) -> Self {
        let mut shapes: Numbers<Unit> = Numbers(HashMap::new());
        let mut stacks: Numbers<Stack> = Numbers(HashMap::new());
        let units = job.units.all();
        let whole: Vec<u32> = units.iter().map(|unit| shapes.number(unit.shape(&job.comms))).collect();
        let mut awaited = |unit: &Unit| -> Vec<(usize, u32)> {
            unit.awaited(&job.comms).into_iter().map(|(comm, calls)| (comm, shapes.number(calls))).collect()
        };
        let awaited: Vec<Vec<(usize, u32)>> = units.iter().map(&mut awaited).collect();
        let member = |rank: &usize| Member { rank: *rank, calls: job.programs[*rank].as_ref().map(|_| Vec::new()) };
        let members = |comm: usize| job.comms.group(comm).iter().map(member).collect();
        let mut comms: Vec<Vec<Member>> = (0..job.names.len()).map(members).collect();
        // By rank: where its member is in each communicator.
        let mut places: Vec<HashMap<usize, usize>> = vec![HashMap::new(); job.programs.len()];
        for (comm, members) in comms.iter().enumerate() {
            members.iter().enumerate().for_each(|(at, member)| _ = places[member.rank].insert(comm, at));
        }
        let mut programs = Vec::with_capacity(job.programs.len());
        for (rank, program) in job.programs.iter().enumerate() {
            let Some(program) = program else {
                programs.push(None);
                continue;
            };
            let mut tokens = Vec::with_capacity(program.len());
            for (index, item) in program.iter().enumerate() {
                let stack = stack(job, rank, *item).map(|stack| stacks.number(stack.clone()));
                let unit = item.unit as usize;
                tokens.push(Token { shape: whole[unit], stack });
                for (comm, shape) in &awaited[unit] {
                    let member = places[rank].get(comm).and_then(|at| comms.get_mut(*comm)?.get_mut(*at));
                    if let Some(calls) = member.and_then(|member| member.calls.as_mut()) {
                        calls.push(Place { index, token: Token { shape: *shape, stack }, done: item.done });
                    }
                }
            }
            programs.push(Some(tokens));
        }
        Self { comms, programs }
    }
}

/// The lines that led to a launch, if they are known.
pub fn stack(job: &Job, rank: usize, item: Item) -> Option<&Stack> {
    let entry = job.launches.get(rank)?.get(item.at as usize)?.entries.first()?;
    Some(&entry.stack).filter(|stack| !stack.is_empty())
}
