use std::time::Duration;

use super::*;

fn key(lease_id: &str) -> LeaseKey {
    LeaseKey {
        company_id: "company".into(),
        environment_id: "environment".into(),
        api_url: "https://a.test".into(),
        account: [0; 32],
        lease_id: Some(lease_id.into()),
    }
}

fn begin(registry: &Arc<Registry>, lease_id: &str, admission: Admission) -> Result<Running, Fault> {
    registry.begin(key(lease_id), admission, Arc::default())
}

fn entries(registry: &Registry) -> usize {
    registry.state().leases.len()
}

#[test]
fn a_lease_that_nothing_is_known_of_takes_no_memory() {
    let registry = Arc::new(Registry::default());
    let runs: Vec<_> = (0..3).map(|_| begin(&registry, "a", Admission::Guarded).unwrap()).collect();
    drop(registry.close(key("b")).unwrap());
    assert_eq!(entries(&registry), 1);
    drop(runs);
    assert_eq!(entries(&registry), 0);
}

#[test]
fn an_unconfirmed_lease_takes_no_command_until_it_is_destroyed() {
    let registry = Arc::new(Registry::default());
    begin(&registry, "a", Admission::Guarded).unwrap().mark_unconfirmed();
    assert_eq!(begin(&registry, "a", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
    assert!(begin(&registry, "b", Admission::Guarded).is_ok());
    assert!(begin(&registry, "a", Admission::Always).is_ok());
    let closing = registry.close(key("a")).unwrap();
    assert!(closing.is_unconfirmed());
    closing.destroyed();
    drop(closing);
    assert!(begin(&registry, "a", Admission::Guarded).is_ok());
    assert_eq!(entries(&registry), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_the_only_one_stops_what_runs_and_waits_for_it() {
    let registry = Arc::new(Registry::default());
    let stop = Arc::<Stop>::default();
    let run = registry.begin(key("a"), Admission::Always, stop.clone()).unwrap();
    let other = begin(&registry, "b", Admission::Guarded).unwrap();
    let closing = registry.close(key("a")).unwrap();
    assert_eq!(registry.close(key("a")).unwrap_err(), Fault::ReleaseInProgress);
    assert_eq!(begin(&registry, "a", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
    let command = tokio::spawn(async move {
        let reason = stop.stopped().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(run);
        reason
    });
    let start = Instant::now();
    closing.stop_running().await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(command.await.unwrap(), Reason::Cancelled);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_what_begins_while_it_waits() {
    let registry = Arc::new(Registry::default());
    let [first, second] = [(); 2].map(|()| Arc::<Stop>::default());
    let run = registry.begin(key("a"), Admission::Always, first.clone()).unwrap();
    let closing = registry.close(key("a")).unwrap();
    let commands = tokio::spawn({
        let registry = registry.clone();
        async move {
            first.stopped().await;
            let late = registry.begin(key("a"), Admission::Always, second.clone()).unwrap();
            drop(run);
            let reason = second.stopped().await;
            drop(late);
            reason
        }
    });
    closing.stop_running().await;
    assert_eq!(commands.await.unwrap(), Reason::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_release_settles_after_what_its_own_thread_ran_and_waits_for_no_other_thread() {
    let registry = Arc::new(Registry::default());
    let mine = begin(&registry, "a", Admission::Guarded).unwrap();
    let theirs =
        std::thread::scope(|scope| scope.spawn(|| begin(&registry, "a", Admission::Guarded).unwrap()).join().unwrap());
    let closing = registry.close(key("a")).unwrap();
    mine.end();
    theirs.end();
    // Neither caller was told yet.
    closing.stop_running().await;
    let settled = tokio::spawn(closing.settled());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!settled.is_finished());
    // The release itself is over.
    let again = registry.close(key("a")).unwrap();
    let late = begin(&registry, "a", Admission::Always).unwrap();
    drop(mine);
    settled.await.unwrap();
    assert_eq!(registry.counts(), (2, 0));
    drop((again, late, theirs));
    assert_eq!(entries(&registry), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_what_begins_later() {
    let registry = Arc::new(Registry::default());
    let start = Instant::now();
    let shut_down = registry.shut_down(start, start + Duration::from_secs(9));
    let stop = Arc::<Stop>::default();
    let _late = registry.begin(key("a"), Admission::Always, stop.clone()).unwrap();
    shut_down.await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::timeout(Duration::from_secs(60), stop.stopped()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_everything_and_waits_no_longer_than_it_may() {
    let registry = Arc::new(Registry::default());
    let stop = Arc::<Stop>::default();
    let stubborn = registry.begin(key("a"), Admission::Guarded, stop.clone()).unwrap();
    let start = Instant::now();
    registry.shut_down(start + Duration::from_secs(8), start + Duration::from_secs(9)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(9));
    assert_eq!(stop.stopped().await, Reason::Cancelled);
    stop.out_of_time(start + Duration::from_secs(60)).await;
    assert_eq!(begin(&registry, "b", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
    drop(stubborn);
    registry.shut_down(start, start).await;
}

#[test]
fn a_lease_that_was_not_had_before_is_recovered_by_one_resume_alone() {
    let registry = Arc::new(Registry::default());
    let first = begin(&registry, "a", Admission::Resume).unwrap();
    let second = begin(&registry, "a", Admission::Resume).unwrap();
    let recovery = first.recover().unwrap().unwrap();
    assert_eq!(second.recover().unwrap_err(), Fault::ResumeUnfinished);
    assert_eq!(begin(&registry, "a", Admission::Guarded).unwrap_err(), Fault::LeaseClosing);
    first.adopt();
    drop(recovery);
    assert!(second.recover().unwrap().is_none());
    assert!(begin(&registry, "a", Admission::Guarded).is_ok());
    second.disown();
    drop((first, second));
    assert_eq!(entries(&registry), 0);
}

#[test]
fn a_lease_in_use_here_is_not_recovered() {
    let registry = Arc::new(Registry::default());
    let _command = begin(&registry, "a", Admission::Guarded).unwrap();
    assert!(begin(&registry, "a", Admission::Resume).unwrap().recover().unwrap().is_none());
}

#[test]
fn a_destroyed_lease_is_nobodys() {
    let registry = Arc::new(Registry::default());
    registry.adopt(&key("a"));
    assert_eq!(entries(&registry), 1);
    registry.close(key("a")).unwrap().destroyed();
    assert_eq!(entries(&registry), 0);
}
