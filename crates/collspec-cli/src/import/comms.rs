//! The communicators of a scenario: families of communicators that do not overlap and share a name.
use super::per_rank::numbers;
use super::text::Text;
use collspec_core::scenario::bad_name;
use std::collections::HashMap;

/// Characters of a name.
const MAX_NAME: usize = 40;

/// Communicators of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// `world`, or the name in `comms`.
    pub name: String,
    /// The value of `comms.NAME` if it is not the list of groups.
    pub value: Option<String>,
    /// The family that must be written too, because this one is split out of it.
    pub parent: Option<usize>,
    /// World ranks in the order of the communicators' ranks.
    pub groups: Vec<Vec<usize>>,
}

impl Family {
    /// True for the communicator of all ranks, which needs no line.
    pub fn is_world(&self) -> bool {
        self.name == "world"
    }

    /// Ranks of a communicator.
    pub fn size(&self) -> usize {
        self.groups.first().map_or(1, Vec::len).max(1)
    }

    /// World ranks, in rising order.
    pub fn members(&self) -> Vec<usize> {
        let mut members = self.groups.concat();
        members.sort_unstable();
        members
    }

    /// The group of a world rank, and its rank there.
    pub fn place(&self, rank: usize) -> Option<(usize, usize)> {
        let places = self.groups.iter().enumerate();
        places.into_iter().find_map(|(at, group)| Some((at, group.iter().position(|member| *member == rank)?)))
    }

    /// The key `comm` of a step; empty for the world.
    pub fn key(&self) -> String {
        if self.is_world() { String::new() } else { format!(", comm = \"{}\"", self.name) }
    }
}

/// All families, and where each communicator is.
#[derive(Clone, Debug)]
pub struct Comms {
    pub families: Vec<Family>,
    /// By communicator: its family, and which of its groups it is.
    places: Vec<(usize, usize)>,
    /// By name: the number that the next family of this name has, if it is free.
    next: HashMap<String, usize>,
}

impl Comms {
    /// With a communicator of all ranks as the first family.
    pub fn new(size: usize) -> Self {
        let groups = vec![(0..size).collect()];
        let world = Family { name: "world".to_owned(), value: None, parent: None, groups };
        Self { families: vec![world], places: Vec::new(), next: HashMap::new() }
    }

    /// The next communicator is that of all ranks.
    pub fn push_world(&mut self) {
        self.places.push((0, 0));
    }

    /// Adds the next communicator to the first of these families that has none of its ranks, or to a new one with the name that is
    /// nearest to this text. Returns the family.
    pub fn push(&mut self, group: &[usize], families: &[usize], text: &str, otherwise: &str) -> usize {
        let has_room = |family: &Family| group.iter().all(|rank| family.place(*rank).is_none());
        let found = families.iter().copied().find(|at| has_room(&self.families[*at]));
        let family = found.unwrap_or_else(|| {
            let name = self.free_name(text, otherwise);
            self.families.push(Family { name, value: None, parent: None, groups: Vec::new() });
            self.families.len() - 1
        });
        self.families[family].groups.push(group.to_vec());
        self.places.push((family, self.families[family].groups.len() - 1));
        family
    }

    fn free_name(&mut self, text: &str, otherwise: &str) -> String {
        let words = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
        let mut name: String = words.skip_while(|c| !c.is_ascii_lowercase()).take(MAX_NAME).collect();
        name.truncate(name.trim_end_matches('_').len());
        if name.is_empty() {
            otherwise.clone_into(&mut name);
        }
        if bad_name(&name).is_some() {
            name.push_str("_group");
        }
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            let numbered = if *next == 1 { name.clone() } else { format!("{name}_{next}") };
            *next += 1;
            if !self.families.iter().any(|family| family.name == numbered) {
                return numbered;
            }
        }
    }

    /// Sorts the groups of each family by their lowest ranks.
    pub fn sort(&mut self) {
        let lowest = |group: &Vec<usize>| group.iter().min().copied();
        for (family, group) in &mut self.places {
            let groups = &self.families[*family].groups;
            *group = groups.iter().filter(|other| lowest(other) < lowest(&groups[*group])).count();
        }
        self.families.iter_mut().for_each(|family| family.groups.sort_by_key(lowest));
    }

    /// The ranks of a communicator.
    pub fn group(&self, comm: usize) -> &[usize] {
        let place = self.places.get(comm).and_then(|(family, group)| self.families.get(*family)?.groups.get(*group));
        place.map_or(&[], Vec::as_slice)
    }

    pub fn family(&self, comm: usize) -> usize {
        self.places.get(comm).map_or(0, |(family, _)| *family)
    }

    /// The communicators of each family.
    pub fn by_family(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.families.len()];
        for (comm, (family, _)) in self.places.iter().enumerate() {
            lists[*family].push(comm);
        }
        lists
    }

    /// Adds the lines of these families, and of those that they are split out of.
    pub fn write(&self, text: &mut Text, used: &[usize]) {
        let mut needed = vec![false; self.families.len()];
        for family in used {
            let mut next = Some(*family);
            // A parent comes before its children, so this ends.
            while let Some(at) = next.filter(|at| !needed[*at]) {
                needed[at] = true;
                next = self.families[at].parent;
            }
        }
        for (family, _) in self.families.iter().zip(needed).filter(|(family, needed)| *needed && !family.is_world()) {
            let lists: Vec<String> = family.groups.iter().map(|group| numbers(group)).collect();
            let value = family.value.clone().unwrap_or_else(|| format!("{{ groups = [{}] }}", lists.join(", ")));
            text.line(format!("comms.{} = {value}", family.name));
        }
    }
}
