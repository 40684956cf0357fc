use std::collections::VecDeque;
use std::future::Future;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;

const PACING: Pacing = Pacing { requests_per_minute: 200, burst: 40 };

fn budget(now: Instant) -> Budget {
    Budget::new(PACING, now)
}

fn take(budget: &mut Budget, priority: Priority, now: Instant) -> Result<(), Duration> {
    budget.take(priority, now).map_err(|throttle| throttle.wait)
}

#[test]
fn within_the_burst_nothing_waits_and_then_one_request_every_300_ms() {
    let now = Instant::now();
    let mut budget = budget(now);
    for _ in 0..40 {
        assert_eq!(take(&mut budget, Priority::Normal, now), Ok(()));
    }
    assert_eq!(take(&mut budget, Priority::Normal, now), Err(Duration::from_millis(300)));
    let later = now + Duration::from_millis(300);
    assert_eq!(take(&mut budget, Priority::Normal, later), Ok(()));
    assert_eq!(take(&mut budget, Priority::Normal, later), Err(Duration::from_millis(300)));
}

#[test]
fn an_idle_budget_never_holds_more_than_the_burst() {
    let now = Instant::now();
    let mut budget = budget(now);
    let later = now + Duration::from_secs(86_400);
    assert_eq!((0..100).filter(|_| take(&mut budget, Priority::Normal, later).is_ok()).count(), 40);
}

#[test]
fn cleanup_draws_fifty_beyond_the_budget_and_normal_requests_pay_it_back_first() {
    let now = Instant::now();
    let mut budget = budget(now);
    assert_eq!((0..100).filter(|_| take(&mut budget, Priority::Cleanup, now).is_ok()).count(), 90);
    assert_eq!(take(&mut budget, Priority::Cleanup, now), Err(Duration::from_millis(300)));
    assert_eq!(take(&mut budget, Priority::Normal, now), Err(Duration::from_millis(51 * 300)));
}

#[test]
fn a_hold_keeps_normal_requests_back_for_at_most_sixty_seconds_and_cleanup_for_five() {
    let now = Instant::now();
    let mut budget = budget(now);
    budget.hold(Duration::MAX, now);
    assert_eq!(take(&mut budget, Priority::Normal, now), Err(Duration::from_secs(60)));
    assert_eq!(take(&mut budget, Priority::Cleanup, now), Err(Duration::from_secs(5)));
    budget.hold(Duration::from_secs(1), now);
    assert_eq!(take(&mut budget, Priority::Normal, now), Err(Duration::from_secs(60)));
    assert_eq!(take(&mut budget, Priority::Cleanup, now + Duration::from_secs(5)), Ok(()));
    assert_eq!(take(&mut budget, Priority::Normal, now + Duration::from_secs(60)), Ok(()));
}

#[test]
fn extreme_numbers_neither_overflow_nor_hang() {
    let now = Instant::now();
    let mut largest = Budget::new(Pacing { requests_per_minute: u32::MAX, burst: u32::MAX }, now);
    assert_eq!(take(&mut largest, Priority::Normal, now + Duration::from_secs(86_400 * 365)), Ok(()));
    let mut smallest = Budget::new(Pacing { requests_per_minute: 0, burst: 0 }, now);
    assert_eq!(take(&mut smallest, Priority::Normal, now), Ok(()));
    assert_eq!(take(&mut smallest, Priority::Normal, now), Err(Duration::from_secs(60)));
}

proptest! {
    /// Windows are closed at both ends, the strictest reading.
    #[test]
    fn no_sixty_seconds_hold_more_than_burst_and_rate(
        requests_per_minute in 1_u32..400,
        burst in 1_u32..80,
        steps in prop::collection::vec((0_u64..3_000, 1_usize..60, prop::bool::weighted(0.2)), 1..150),
    ) {
        let mut now = Instant::now();
        let mut budget = Budget::new(Pacing { requests_per_minute, burst }, now);
        let most = (requests_per_minute + burst) as usize;
        let mut recent: VecDeque<(Instant, Priority)> = VecDeque::new();
        for (pause, requests, cleanup) in steps {
            now += Duration::from_millis(pause);
            let priority = if cleanup { Priority::Cleanup } else { Priority::Normal };
            for _ in 0..requests {
                if take(&mut budget, priority, now).is_ok() {
                    recent.push_back((now, priority));
                }
            }
            while recent.front().is_some_and(|(at, _)| now - *at > Duration::from_secs(60)) {
                recent.pop_front();
            }
            let normal = recent.iter().filter(|(_, priority)| *priority == Priority::Normal).count();
            prop_assert!(normal <= most, "{normal} normal requests, {most} allowed");
            prop_assert!(recent.len() <= most + CLEANUP_RESERVE as usize);
        }
    }

    /// Asking again after exactly the wait that was named always succeeds, and a nanosecond earlier never does.
    #[test]
    fn the_named_wait_is_exact(requests_per_minute in 1_u32..1_000, burst in 1_u32..50, taken in 0_u32..80) {
        let now = Instant::now();
        let mut budget = Budget::new(Pacing { requests_per_minute, burst }, now);
        for _ in 0..taken {
            let _ = take(&mut budget, Priority::Cleanup, now);
        }
        if let Err(wait) = take(&mut budget, Priority::Normal, now) {
            prop_assert!(budget.clone().take(Priority::Normal, now + wait - Duration::from_nanos(1)).is_err());
            prop_assert!(take(&mut budget, Priority::Normal, now + wait).is_ok());
        }
    }
}

async fn drain(pacer: &Pacer) {
    for _ in 0..40 {
        pacer.acquire(Priority::Normal, |_| ()).await;
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

#[tokio::test(start_paused = true)]
async fn the_burst_does_not_wait_and_the_rest_does() {
    let pacer = Pacer::new(PACING);
    let start = Instant::now();
    drain(&pacer).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..200 {
        pacer.acquire(Priority::Normal, |_| ()).await;
    }
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order() {
    let pacer = Arc::new(Pacer::new(PACING));
    drain(&pacer).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (pacer, order) = (Arc::clone(&pacer), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            pacer.acquire(Priority::Normal, |_| ()).await;
            order.lock().unwrap().push(number);
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn cleanup_passes_waiting_normal_requests() {
    let pacer = Arc::new(Pacer::new(PACING));
    drain(&pacer).await;
    let waiting = tokio::spawn({
        let pacer = Arc::clone(&pacer);
        async move { pacer.acquire(Priority::Normal, |_| ()).await }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    for _ in 0..50 {
        pacer.acquire(Priority::Cleanup, |_| ()).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!waiting.is_finished());
    waiting.await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(51 * 300));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_at_once_and_takes_nothing() {
    let pacer = Pacer::new(PACING);
    drain(&pacer).await;
    let start = Instant::now();
    let mut first = Box::pin(pacer.acquire(Priority::Normal, |_| ()));
    let mut second = Box::pin(pacer.acquire(Priority::Normal, |_| ()));
    let mut third = Box::pin(pacer.acquire(Priority::Normal, |_| ()));
    assert!(poll_once(&mut first).is_pending());
    assert!(poll_once(&mut second).is_pending());
    assert!(poll_once(&mut third).is_pending());
    drop(first);
    drop(second);
    third.await;
    assert!(start.elapsed() < Duration::from_millis(310), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_begins_while_someone_sleeps_is_respected() {
    let pacer = Arc::new(Pacer::new(PACING));
    drain(&pacer).await;
    let start = Instant::now();
    let waiting = tokio::spawn({
        let pacer = Arc::clone(&pacer);
        async move { pacer.acquire(Priority::Normal, |_| ()).await }
    });
    tokio::task::yield_now().await;
    pacer.hold(Duration::from_secs(20));
    pacer.acquire(Priority::Cleanup, |_| ()).await;
    assert_eq!(start.elapsed().as_secs(), 5);
    waiting.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 20);
}

#[test]
fn a_url_has_one_pacer_and_its_first_numbers_stick() {
    let first = Pacer::shared("http://pacer.test", PACING).unwrap();
    assert!(Arc::ptr_eq(&first, &Pacer::shared("http://pacer.test", PACING).unwrap()));
    let other = Pacing { requests_per_minute: 100, burst: 40 };
    assert_eq!(
        Pacer::shared("http://pacer.test", other).err(),
        Some(Fault::PacingFixed { requests_per_minute: 200, burst: 40 })
    );
    assert!(!Arc::ptr_eq(&first, &Pacer::shared("http://other.test", other).unwrap()));
}

#[test]
fn retry_after_reads_seconds_and_dates_and_nothing_else() {
    let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
    let cases = [
        ("0", Some(0)),
        (" 17 ", Some(17)),
        ("86400", Some(86_400)),
        ("99999999999999999999999999", Some(u64::MAX)),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
        ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
        ("Sun Nov  6 08:50:37 1994", Some(60)),
        ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("soon", None),
        ("١٢", None),
    ];
    for (value, seconds) in cases {
        assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_to_wait_is_told_once_how_long_and_why_also_behind_others() {
    let pacer = Pacer::new(Pacing { requests_per_minute: 60, burst: 1 });
    let told = Mutex::new(Vec::new());
    let tell = |throttle: Throttle| told.lock().unwrap().push((throttle.cause, throttle.wait.as_secs()));
    pacer.acquire(Priority::Normal, tell).await;
    assert_eq!(*told.lock().unwrap(), []);
    let waiting = || pacer.acquire(Priority::Normal, tell);
    tokio::join!(waiting(), waiting(), waiting());
    assert_eq!(*told.lock().unwrap(), [(Cause::Budget, 1), (Cause::Budget, 2), (Cause::Budget, 3)]);

    told.lock().unwrap().clear();
    pacer.hold(Duration::from_secs(600));
    tokio::join!(waiting(), pacer.acquire(Priority::Cleanup, tell));
    assert_eq!(*told.lock().unwrap(), [(Cause::Hold, 60), (Cause::Hold, 5)]);

    // Who leaves is no longer ahead of anybody.
    told.lock().unwrap().clear();
    let patience = Duration::from_millis(1);
    assert!(tokio::time::timeout(patience, async { tokio::join!(waiting(), waiting()) }).await.is_err());
    told.lock().unwrap().clear();
    tokio::join!(waiting(), waiting());
    assert_eq!(*told.lock().unwrap(), [(Cause::Budget, 0), (Cause::Budget, 1)]);
}
