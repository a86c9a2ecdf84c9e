//! All processes of a job, for the one that leads.
use super::greeting::Introduction;
use super::member::{Lost, Member};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A place for ranks.
#[derive(Clone)]
pub enum Site {
    /// The leading process.
    Here,
    /// Another one.
    There(Arc<Member>),
}

/// The processes of a job, by rank.
pub struct Cluster {
    own: Introduction,
    sites: Vec<Site>,
    machines: usize,
}

impl Cluster {
    /// Of the leading process and all others.
    pub(super) fn new(own: Introduction, members: Vec<Arc<Member>>) -> Self {
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
        Self { own, sites, machines }
    }

    /// Places for ranks, in the launcher's order.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// What the place's process said of itself.
    pub fn introduction(&self, site: usize) -> Option<&Introduction> {
        self.sites.get(site).map(|site| match site {
            Site::Here => &self.own,
            Site::There(member) => member.introduction(),
        })
    }

    /// Number of machines.
    pub fn machines(&self) -> usize {
        self.machines
    }

    /// The first of these places whose process is lost.
    pub fn lost(&self, sites: impl IntoIterator<Item = usize>) -> Option<Lost> {
        sites.into_iter().find_map(|site| match self.sites.get(site) {
            Some(Site::There(member)) => member.lost(),
            _ => None,
        })
    }

    /// Tells all others that the run is over with this exit status.
    pub fn finish(&self, status: u8) {
        for site in &self.sites {
            if let Site::There(member) = site {
                member.finish(status);
            }
        }
    }
}
