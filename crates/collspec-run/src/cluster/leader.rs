//! All processes of a job, for the one that leads.
use super::greeting::{Introduction, MemberOrder, gpu_identity};
use super::member::{Lost, Member};
use super::traffic::{Counted, Traffic};
use collspec_core::printable::names_in_words;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// A place for ranks.
#[derive(Clone)]
pub enum Site {
    /// A site in the leading process.
    Here,
    /// A site in another process.
    There(Arc<Member>),
}

/// The processes of a job that are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Those that are alive now.
    Living,
    /// All that have met, including those that were lost since.
    All,
}

/// The processes of a job, by rank.
pub struct Cluster {
    own: Introduction,
    sites: Vec<Site>,
    machines: usize,
    traffic: Arc<Traffic>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = (0..self.sites.len()).filter_map(|site| self.introduction(site));
        f.debug_list().entries(processes.map(Introduction::name)).finish()
    }
}

impl Cluster {
    /// The cluster of the leading process and all others.
    pub(super) fn new(own: Introduction, members: Vec<Arc<Member>>, traffic: Arc<Traffic>) -> Self {
        let mut sites: Vec<(u32, Site)> =
            members.into_iter().map(|member| (member.introduction().rank, Site::There(member))).collect();
        sites.push((own.rank, Site::Here));
        sites.sort_by_key(|(rank, _)| *rank);
        let sites: Vec<Site> = sites.into_iter().map(|(_, site)| site).collect();
        let mut hosts: BTreeSet<&str> = [own.host.as_str()].into();
        for site in &sites {
            if let Site::There(member) = site {
                hosts.insert(&member.introduction().host);
            }
        }
        let machines = hosts.len();
        Self { own, sites, machines, traffic }
    }

    /// Places for ranks, in the launcher's order.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The data that the site's process sent about itself.
    pub fn introduction(&self, site: usize) -> Option<&Introduction> {
        self.sites.get(site).map(|site| match site {
            Site::Here => &self.own,
            Site::There(member) => member.introduction(),
        })
    }

    /// The places of these processes.
    fn places(&self, among: Among) -> impl Iterator<Item = usize> {
        (0..self.sites.len()).filter(move |site| among == Among::All || self.lost([*site]).is_none())
    }

    /// Number of GPUs that these processes see, each counted once.
    pub fn gpus(&self, among: Among) -> usize {
        let processes = self.places(among).filter_map(|site| self.introduction(site));
        let gpus = processes.flat_map(|process| {
            let gpus = process.equipment.gpus.iter().enumerate();
            gpus.map(|(number, gpu)| gpu_identity(&process.host, number, gpu))
        });
        gpus.collect::<BTreeSet<_>>().len()
    }

    /// Number of machines that these places are on.
    pub fn machines_of(&self, sites: &[usize]) -> usize {
        let hosts = sites.iter().filter_map(|site| Some(self.introduction(*site)?.host.as_str()));
        hosts.collect::<BTreeSet<_>>().len()
    }

    /// Number of distinct machines.
    pub fn machines(&self) -> usize {
        self.machines
    }

    /// The traffic between this process and the others so far.
    pub fn traffic(&self) -> Counted {
        self.traffic.counted()
    }

    /// Chooses this many sites, on as many machines as possible, those of a machine one after the other; `None` if there are not enough.
    pub fn choose(&self, processes: usize, among: Among) -> Option<Vec<usize>> {
        let (mut machines, mut numbers): (Vec<Vec<usize>>, HashMap<&str, usize>) = Default::default();
        for site in self.places(among) {
            let host = self.introduction(site).map_or("", |process| process.host.as_str());
            let number = *numbers.entry(host).or_insert(machines.len());
            match machines.get_mut(number) {
                Some(sites) => sites.push(site),
                None => machines.push(vec![site]),
            }
        }
        let mut taken = vec![0; machines.len()];
        let mut left = processes;
        while left > 0 {
            let before = left;
            for (taken, sites) in taken.iter_mut().zip(&machines) {
                if left > 0 && *taken < sites.len() {
                    *taken += 1;
                    left -= 1;
                }
            }
            if left == before {
                return None;
            }
        }
        let chosen = machines.iter().zip(taken).flat_map(|(sites, taken)| sites.iter().take(taken).copied());
        Some(chosen.collect())
    }

    /// The first of these places whose process is lost.
    pub fn lost(&self, sites: impl IntoIterator<Item = usize>) -> Option<Lost> {
        self.all_lost(sites).next()
    }

    fn all_lost(&self, sites: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Lost> {
        sites.into_iter().filter_map(|site| match self.sites.get(site) {
            Some(Site::There(member)) => member.lost(),
            _ => None,
        })
    }

    /// Describes the lost processes, with the reason if there is only one.
    pub fn lost_in_words(&self) -> Option<String> {
        let lost: Vec<Lost> = self.all_lost(0..self.sites.len()).collect();
        match lost.as_slice() {
            [] => None,
            [one] => Some(one.to_string()),
            several => {
                let names: Vec<String> = several.iter().map(|lost| lost.name.clone()).collect();
                Some(format!("{} are lost", names_in_words(&names)))
            }
        }
    }

    /// Tells all other processes that the run is over with this exit status.
    pub fn finish(&self, status: u8) {
        for site in &self.sites {
            if let Site::There(member) = site {
                member.tell(&MemberOrder::Finished(status));
            }
        }
    }
}
