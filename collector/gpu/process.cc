// SPDX-License-Identifier: MIT
#include "gpu/process.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace slotscope {
namespace {

// Handles that are no pointers.
constexpr uint64_t kDefaultStream = 0, kLegacyStream = 1, kPerThreadStream = 2;
constexpr uint64_t kNonBlocking = 1;     // of a stream's flags
constexpr uint64_t kDeviceToDevice = 3;  // cudaMemcpyKind: the host does not wait for it
constexpr uint64_t kOnDevice = 1;        // CUmemLocationType
constexpr uint64_t kMemory = 1;          // of SS_CUDA_UNCOUNTED

// Blocks times threads, as far as that is a number.
uint64_t ThreadsOf(const ss_cuda_call& call) {
  const auto& values = call.values;
  const uint64_t factors[] = {values[2] & UINT32_MAX, values[2] >> 32, values[3],
                              values[4] & UINT32_MAX, values[4] >> 32, values[5]};
  uint64_t threads = 1;
  for (uint64_t factor : factors)
    if (__builtin_mul_overflow(threads, factor, &threads)) return UINT64_MAX;
  return threads;
}

}  // namespace

GpuProcess::Thread* GpuProcess::ThreadOf(int32_t tid) {
  auto found = threads_.find(tid);
  if (found == threads_.end()) {
    if (threads_.size() >= kMaxThreads) {
      stats_->nr_rejected_threads++;
      return nullptr;
    }
    found = threads_.try_emplace(tid).first;
  }
  return &found->second;
}

void GpuProcess::Touch(int32_t tid, Thread* thread) {
  if (!std::exchange(thread->is_touched, true)) touched_.push_back(tid);
}

void GpuProcess::OnTurn(const ss_cuda_turn& turn, uint64_t at_ns) {
  Thread* const thread = ThreadOf(turn.tid);
  if (!thread) return;
  thread->line.OnTurn(turn, at_ns);
  if (no_work_.launches())
    Touch(turn.tid, thread);
  else
    thread->line.Drop(at_ns);  // nobody asks what it did
}

void GpuProcess::ForgetTurns(uint64_t at_ns) {
  for (auto& [tid, thread] : threads_) {
    if (thread.line.empty()) continue;
    thread.line.Forget(at_ns);
    Touch(tid, &thread);
  }
}

// A thread begins on device 0, if it is one whose every call we have seen.
GpuPlace GpuProcess::Current(Thread* thread) const {
  if (!thread) return {OnlyDevice(), 0};  // there is no room for what it has chosen
  if (thread->places.empty()) return {complete_ ? 0 : OnlyDevice(), 0};
  GpuPlace place = thread->places.back();
  if (place.device == kUnknownDevice) place.device = OnlyDevice();
  return place;
}

GpuPlace GpuProcess::PlaceOf(uint64_t context) const {
  auto found = contexts_.find(context);
  return found == contexts_.end() ? GpuPlace{kUnknownDevice, context} : found->second;
}

int32_t GpuProcess::DeviceOf(uint64_t context) const {
  const int32_t device = PlaceOf(context).device;
  return device == kUnknownDevice ? OnlyDevice() : device;
}

// Where everything is that a process does which sees one GPU only; else it is not known where.
int32_t GpuProcess::OnlyDevice() const { return machine_->SeesOne(key_) ? 0 : kUnknownDevice; }

void GpuProcess::SetCurrent(Thread* thread, GpuPlace place) {
  if (thread->places.empty())
    thread->places.push_back(place);
  else
    thread->places.back() = place;
}

void GpuProcess::Push(Thread* thread, GpuPlace place) {
  if (thread->places.size() < kMaxPlaces) thread->places.push_back(place);
}

void GpuProcess::Apply(const ss_cuda_call& call, uint64_t at_ns) {
  if (call.op == SS_CUDA_DEVICE_IS) {
    (void)ThreadOf(call.tid);  // it may be its first
    const auto device = static_cast<int32_t>(call.values[0]);
    const int32_t gpu = machine_->FindUuid({call.values[1], call.values[2]});
    if (gpu != kUnknownGpu && told_gpus_.size() < kMaxDevices) told_gpus_[device] = gpu;
    return;
  }
  if (!begun_) {
    begun_ = true;
    complete_ = call.op == SS_CUDA_INIT;
    if (!complete_) memory_.SetIncomplete();
  }
  uses_runtime_ |= !(call.flags & SS_CUDA_DRIVER);
  call_begun_ns_ = call.start_ns;
  Thread* thread = ThreadOf(call.tid);
  // Another thread, with the number of one that ended.
  if (thread && (call.flags & SS_CUDA_FIRST)) thread->places.clear();
  if (thread && !thread->line.empty()) {
    thread->line.OnCall(call.start_ns, call.hdr.ts_ns, at_ns);
    Touch(call.tid, thread);
  }
  const GpuPlace place = Current(thread);
  switch (call.op) {
    case SS_CUDA_SET_DEVICE:
    case SS_CUDA_GOT_DEVICE:
    case SS_CUDA_CTX_CREATE:
    case SS_CUDA_CTX_RETAIN:
    case SS_CUDA_CTX_DESTROY:
    case SS_CUDA_CTX_RESET:
    case SS_CUDA_CTX_RELEASE:
    case SS_CUDA_CTX_SET:
    case SS_CUDA_CTX_PUSH:
    case SS_CUDA_CTX_POP:
    case SS_CUDA_RESET:
      if (thread) ApplyToContext(call, thread, at_ns);
      break;
    case SS_CUDA_ALLOC:
    case SS_CUDA_ALLOC_ARRAY:
    case SS_CUDA_ALLOC_DRIVER_ARRAY:
    case SS_CUDA_FREE:
    case SS_CUDA_MEM_CREATE:
    case SS_CUDA_MEM_RELEASE:
    case SS_CUDA_MEM_MAP:
    case SS_CUDA_MEM_UNMAP:
    case SS_CUDA_MEM_RETAIN:
    case SS_CUDA_MEM_IMPORT:
      any_ = true;
      ApplyToMemory(call, place, at_ns);
      break;
    case SS_CUDA_UNCOUNTED:
      if (call.values[0] == kMemory)
        memory_.SetIncomplete();
      else
        knows_launches_ = false;
      break;
    default:
      ApplyToStream(call, place, at_ns);
  }
}

// The runtime makes a device's primary context current before it retains it.
void GpuProcess::LearnPrimary(uint64_t context, int32_t device) {
  const GpuPlace place = {device, 0};
  const GpuPlace unknown = {kUnknownDevice, context};
  if (contexts_.size() >= kMaxContexts || !contexts_.insert_or_assign(context, place).second) return;
  for (auto& [tid, thread] : threads_)
    std::replace(thread.places.begin(), thread.places.end(), unknown, place);
}

void GpuProcess::ApplyToContext(const ss_cuda_call& call, Thread* thread, uint64_t at_ns) {
  const uint64_t context = call.values[0];
  const auto device =
      static_cast<int32_t>(call.values[call.op == SS_CUDA_CTX_CREATE || call.op == SS_CUDA_CTX_RETAIN]);
  auto& places = thread->places;
  switch (call.op) {
    case SS_CUDA_SET_DEVICE:
      SetCurrent(thread, {device, 0});
      break;
    case SS_CUDA_GOT_DEVICE:
      if (Current(thread).device == kUnknownDevice) SetCurrent(thread, {device, 0});
      break;
    case SS_CUDA_CTX_CREATE:
      if (contexts_.size() < kMaxContexts) contexts_[context] = {device, context};
      Push(thread, {device, context});
      break;
    case SS_CUDA_CTX_RETAIN:
      LearnPrimary(context, device);
      if (retained_.size() < kMaxDevices || retained_.contains(device)) retained_[device]++;
      break;
    case SS_CUDA_CTX_DESTROY: {
      const GpuPlace place = PlaceOf(context);
      FreeDevice({DeviceOf(context), place.context}, at_ns);
      contexts_.erase(context);
      if (!places.empty() && places.back() == place) places.pop_back();
      break;
    }
    case SS_CUDA_CTX_RESET:
      FreeDevice({device, 0}, at_ns);
      break;
    case SS_CUDA_CTX_RELEASE:
      // The runtime keeps a reference of its own.
      if (auto found = retained_.find(device);
          found != retained_.end() && found->second > 0 && --found->second == 0 && !uses_runtime_)
        FreeDevice({device, 0}, at_ns);
      break;
    case SS_CUDA_CTX_SET:
      if (context != 0)
        SetCurrent(thread, PlaceOf(context));
      else if (!places.empty())
        places.pop_back();
      break;
    case SS_CUDA_CTX_PUSH:
      Push(thread, PlaceOf(context));
      break;
    case SS_CUDA_CTX_POP:
      if (!places.empty()) places.pop_back();
      break;
    default:  // SS_CUDA_RESET
      FreeDevice({Current(thread).device, 0}, at_ns);
  }
}

// A call that chose a device, or began or ended a capture, may be among those that were lost.
void GpuProcess::OnLostCalls(uint64_t from_ns, uint64_t until_ns) {
  KernelSpan span;
  for (auto& [key, stream] : streams_)
    if (stream.Cut(from_ns, &span)) Emit(span);
  memory_.SetMissed();
  lossy_until_ns_ = std::max(lossy_until_ns_, until_ns);
  doubts_activity_ = lossy_in_slot_ = true;
  complete_ = false;
  for (auto& [tid, thread] : threads_) thread.places.clear();
  for (auto& [key, stream] : streams_) {
    doubts_launches_ |= stream.capturing();
    stream.SetCapturing(false);
  }
  doubts_launches_ |= !capturing_elsewhere_.empty();
  capturing_elsewhere_.clear();
}

// All memory and all streams of a context are gone.
void GpuProcess::FreeDevice(GpuPlace place, uint64_t at_ns) {
  any_ = true;
  memory_.FreeContext(place, at_ns);
  TellBalances(at_ns);
  WaitForDevice(place.device, UINT64_MAX, at_ns, [](const GpuStream&) { return true; });
  for (auto& [key, stream] : streams_)
    if (stream.device() == place.device) stream.Destroy();
}

// That it holds nothing once it has ended is certain.
void GpuProcess::TellBalance(int32_t device, uint64_t at_ns, bool has_ended) {
  if (!balances_) return;
  if (balances_->size() >= kMaxBalances) {
    stats_->nr_dropped_balances++;
    return;
  }
  auto held = memory_.bytes_by_device().find(device);
  const int32_t gpu = GpuOf(device);
  Use* const use = UseOf(device);
  if (use) use->was_told_nowhere = gpu == kUnknownGpu;
  balances_->push_back({at_ns,
                        key_,
                        {},
                        device,
                        gpu,
                        held == memory_.bytes_by_device().end() ? 0 : held->second,
                        use ? use->last_alloc_bytes : 0,
                        has_ended || memory_.complete(),
                        !has_ended && memory_.missed()});
}

bool GpuProcess::TellBalances(uint64_t at_ns) {
  const std::vector<int32_t> devices = memory_.TakeTouched();
  for (int32_t device : devices) TellBalance(device, at_ns);
  return !devices.empty();
}

void GpuProcess::ApplyToMemory(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns) {
  const auto& values = call.values;
  uint64_t bytes = 0;
  std::optional<int32_t> touched;
  switch (call.op) {
    case SS_CUDA_ALLOC:
    case SS_CUDA_ALLOC_ARRAY:
    case SS_CUDA_ALLOC_DRIVER_ARRAY: {
      ss_cuda_memory kind = SS_CUDA_ARRAY;
      if (call.op == SS_CUDA_ALLOC)
        kind = static_cast<ss_cuda_memory>(values[4]);
      else if (values[6] > 1)
        kind = SS_CUDA_MIPMAPPED_ARRAY;
      if (!AllocatedBytes(call, &bytes)) memory_.SetIncomplete();
      memory_.Allocate(values[0], bytes, kind, place, at_ns);
      if (kind == SS_CUDA_HOST) break;
      if (Use* use = UseOf(place.device)) use->last_alloc_bytes = bytes;
      touched = place.device;
      break;
    }
    case SS_CUDA_FREE:
      stats_->nr_unknown_frees +=
          !memory_.Free(values[0], static_cast<ss_cuda_memory>(values[1]), place, at_ns);
      // One of unknown memory, or of none, is told as well.
      if (values[1] != SS_CUDA_HOST) touched = place.device;
      break;
    case SS_CUDA_MEM_CREATE:
      if (Use* use = UseOf(static_cast<int32_t>(values[2] >> 32));
          use && (values[2] & UINT32_MAX) == kOnDevice)
        use->last_alloc_bytes = values[1];
      memory_.Create(values[0], values[1], (values[2] & UINT32_MAX) == kOnDevice,
                     static_cast<int32_t>(values[2] >> 32), at_ns);
      break;
    case SS_CUDA_MEM_IMPORT:
      memory_.Create(values[0], 0, false, kUnknownDevice, at_ns);
      break;
    case SS_CUDA_MEM_RELEASE:
      memory_.Release(values[0], at_ns);
      break;
    case SS_CUDA_MEM_MAP:
      memory_.Map(values[0], values[1], values[2]);
      break;
    case SS_CUDA_MEM_UNMAP:
      memory_.Unmap(values[0], values[1], at_ns);
      break;
    default:  // SS_CUDA_MEM_RETAIN
      memory_.Retain(values[1]);
  }
  if (!TellBalances(at_ns) && touched) TellBalance(*touched, at_ns);
}

// Default streams are one per device, and per thread where the program was built so.
GpuProcess::StreamKey GpuProcess::KeyOf(const ss_cuda_call& call, uint64_t handle,
                                        int32_t device) const {
  const bool per_thread =
      handle == kPerThreadStream || (handle == kDefaultStream && (call.flags & SS_CUDA_PER_THREAD));
  if (per_thread) return {kPerThreadStream, call.tid, device};
  if (handle == kDefaultStream || handle == kLegacyStream) return {kDefaultStream, 0, device};
  return {handle, 0, 0};
}

GpuStream* GpuProcess::FindStream(const StreamKey& key) {
  auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : &found->second;
}

GpuStream* GpuProcess::MakeStream(const StreamKey& key, int32_t device, bool blocking) {
  if (streams_.size() >= kMaxStreams)  // those that are done with make room
    std::erase_if(streams_,
                  [](const auto& entry) { return entry.second.destroyed() && !entry.second.busy(); });
  if (streams_.size() >= kMaxStreams) return nullptr;
  return &streams_.insert_or_assign(key, GpuStream(key.handle, device, blocking, pool_)).first->second;
}

void GpuProcess::ApplyToStream(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns) {
  const auto& values = call.values;
  switch (call.op) {
    case SS_CUDA_LAUNCH:
    case SS_CUDA_GRAPH_LAUNCH:
      Launch(call, place, at_ns);
      break;
    case SS_CUDA_STREAM_DONE:
      WaitFor(KeyOf(call, values[0], place.device), call.start_ns, at_ns);
      break;
    case SS_CUDA_COPY_DONE:
      if (values[0] != kDeviceToDevice)
        WaitFor(KeyOf(call, kDefaultStream, place.device), call.start_ns, at_ns);
      break;
    case SS_CUDA_DEVICE_DONE:
      WaitForDevice(values[0] ? DeviceOf(values[0]) : place.device, call.start_ns, at_ns,
                    [](const GpuStream&) { return true; });
      break;
    case SS_CUDA_EVENT_DONE:
      if (auto found = records_.find(values[0]); found != records_.end())
        WaitFor(found->second.stream, found->second.ns, at_ns);
      break;
    case SS_CUDA_EVENT_RECORD: {
      const StreamKey key = KeyOf(call, values[1], place.device);
      if (records_.size() < kMaxEvents || records_.contains(values[0]))
        records_[values[0]] = {key, call.start_ns};
      break;
    }
    case SS_CUDA_EVENT_DESTROY:
      records_.erase(values[0]);
      break;
    case SS_CUDA_STREAM_CREATE:
      // One of that handle was destroyed, and nobody waited for what was in it.
      if (GpuStream* old = FindStream(KeyOf(call, values[0], place.device)))
        Wait(old, UINT64_MAX, at_ns, KernelsEnd::kUnknown);
      MakeStream(KeyOf(call, values[0], place.device), place.device, !(values[1] & kNonBlocking));
      break;
    case SS_CUDA_STREAM_DESTROY:
      if (GpuStream* stream = FindStream(KeyOf(call, values[0], place.device))) stream->Destroy();
      break;
    case SS_CUDA_STREAM_WAIT:
      // What waits for a captured event is captured with it.
      if (auto found = records_.find(values[1]);
          found != records_.end() && IsCapturing(found->second.stream))
        SetCapturing(KeyOf(call, values[0], place.device));
      break;
    case SS_CUDA_CAPTURE_BEGIN: {
      const StreamKey key = KeyOf(call, values[0], place.device);
      if (!FindStream(key)) MakeStream(key, place.device, true);
      SetCapturing(key);
      break;
    }
    case SS_CUDA_CAPTURE_END:
      doubts_launches_ = false;
      // With the one that began it all that joined it; two captures at once are taken for one.
      for (auto& [key, stream] : streams_) stream.SetCapturing(false);
      capturing_elsewhere_.clear();
      break;
    default:
      break;
  }
}

bool GpuProcess::IsCapturing(const StreamKey& key) {
  const GpuStream* const stream = FindStream(key);
  return stream ? stream->capturing() : capturing_elsewhere_.contains(key);
}

void GpuProcess::SetCapturing(const StreamKey& key) {
  if (GpuStream* stream = FindStream(key))
    stream->SetCapturing(true);
  else if (capturing_elsewhere_.size() < kMaxStreams)
    capturing_elsewhere_[key] = true;
  else
    knows_launches_ = false;
}

void GpuProcess::Launch(const ss_cuda_call& call, GpuPlace place, uint64_t at_ns) {
  const StreamKey key = KeyOf(call, call.values[0], place.device);
  GpuStream* stream = FindStream(key);
  if (IsCapturing(key)) return;
  if (!stream) stream = MakeStream(key, place.device, true);
  if (!stream) {
    stats_->nr_rejected_streams++;
    knows_activity_ = false;
  }
  any_ = true;
  nr_launches_++;
  if (Use* use = UseOf(place.device)) use->nr_launches++;
  if (!stream) return;
  CutAtGap(stream, at_ns);
  if (!stream->busy()) BeginActive(stream->device(), at_ns, call.tid);
  no_work_.OnLaunch(at_ns, call.tid);
  if (Use* use = UseOf(stream->device())) use->no_work.OnLaunch(at_ns, call.tid);
  KernelSpan span;
  if (stream->Launch(at_ns, call.op == SS_CUDA_LAUNCH ? ThreadsOf(call) : 0, &span)) {
    stats_->nr_forced_spans++;
    Emit(span);
  }
}

void GpuProcess::Emit(KernelSpan span) {
  span.process = key_;
  if (sink_) sink_->OnKernels(span);
}

// What was launched while calls were lost may have been waited for by one of these: where nothing was
// seen for a while, its span ends with what was seen last.
void GpuProcess::CutAtGap(GpuStream* stream, uint64_t at_ns) {
  if (stream->pending_since_ns() >= lossy_until_ns_) return;
  KernelSpan span;
  if ((at_ns >= lossy_until_ns_ || call_begun_ns_ > stream->last_ns() + kQuietNs) &&
      stream->Cut(stream->last_ns(), &span))
    Emit(span);
}

void GpuProcess::Wait(GpuStream* stream, uint64_t from_ns, uint64_t end_ns, KernelsEnd end) {
  CutAtGap(stream, end_ns);
  const bool was_busy = stream->busy();
  KernelSpan span;
  if (stream->Wait(from_ns, end_ns, &span)) {
    span.end = end;
    Emit(span);
  }
  ReviewDoubts(end_ns);
  if (was_busy && !stream->busy()) {
    any_ = true;
    EndActive(stream->device(), end_ns, end == KernelsEnd::kWaited);
  }
}

// Somebody has waited. What was active until then, unknown to us, had work.
void GpuProcess::ReviewDoubts(uint64_t at_ns) {
  if (!doubts_activity_ || at_ns < lossy_until_ns_ || !silent_.empty()) return;
  doubts_activity_ = std::any_of(streams_.begin(), streams_.end(),
                                 [](const auto& entry) { return entry.second.busy(); });
  if (doubts_activity_) return;
  if (!activity_.active()) no_work_.End(at_ns, true);
  for (auto& [device, use] : uses_)
    if (!use.activity.active()) use.no_work.End(at_ns, true);
}

// What the driver said, or what the process could see when it began.
int32_t GpuProcess::GpuOf(int32_t device) const {
  auto told = told_gpus_.find(device);
  return told != told_gpus_.end() ? told->second : machine_->FindDevice(key_, device);
}

// Null beyond kMaxDevices.
GpuProcess::Use* GpuProcess::UseOf(int32_t device) {
  if (uses_.size() >= kMaxDevices && !uses_.contains(device)) return nullptr;
  return &uses_[device];
}

void GpuProcess::BeginActive(int32_t device, uint64_t ns, int32_t tid) {
  if (!activity_.active()) no_work_.Begin(ns, tid);
  activity_.Begin(ns);
  Use* const use = UseOf(device);
  if (!use) return;
  if (!use->activity.active()) {
    use->gpu = GpuOf(device);
    machine_->Begin(use->gpu, ns);
    use->no_work.Begin(ns, tid);
  }
  use->activity.Begin(ns);
}

void GpuProcess::EndActive(int32_t device, uint64_t ns, bool has_waited) {
  activity_.End(ns);
  if (!activity_.active()) no_work_.End(ns, has_waited);
  Use* const use = UseOf(device);
  if (!use || !use->activity.active()) return;
  use->activity.End(ns);
  if (use->activity.active()) return;
  machine_->End(use->gpu, ns);
  use->no_work.End(ns, has_waited);
}

void GpuProcess::WaitForDevice(int32_t device, uint64_t from_ns, uint64_t end_ns,
                               const std::function<bool(const GpuStream&)>& which) {
  // What was launched before it was known that there is one GPU only is on that.
  const bool is_only = device != kUnknownDevice && device == OnlyDevice();
  const auto is_there = [&](const GpuStream& stream) {
    return (stream.device() == device || (is_only && stream.device() == kUnknownDevice)) &&
           which(stream);
  };
  for (auto& [key, stream] : streams_)
    if (is_there(stream)) Wait(&stream, from_ns, end_ns);
  std::erase_if(silent_, [&](const auto& entry) {
    return entry.second.last_ns() <= from_ns && is_there(entry.second);
  });
  ReviewDoubts(end_ns);
}

// The default stream is behind all that block it.
void GpuProcess::WaitFor(const StreamKey& key, uint64_t from_ns, uint64_t end_ns) {
  if (const auto found = silent_.find(key);
      found != silent_.end() && found->second.last_ns() <= from_ns) {
    silent_.erase(found);
    ReviewDoubts(end_ns);
  }
  GpuStream* stream = FindStream(key);
  if (stream) Wait(stream, from_ns, end_ns);
  if (key.handle == kDefaultStream)
    WaitForDevice(key.device, from_ns, end_ns, [](const GpuStream& other) { return other.blocking(); });
}

bool GpuProcess::IsStill(uint64_t end_ns) const {
  return !any_ && !activity_.active() && !no_work_.launches() && !lossy_in_slot_ &&
         lossy_until_ns_ <= end_ns &&
         std::none_of(streams_.begin(), streams_.end(),
                      [](const auto& entry) { return entry.second.busy(); }) &&
         std::none_of(uses_.begin(), uses_.end(), [](const auto& entry) {
           return entry.second.activity.active() || entry.second.no_work.launches();
         });
}

void GpuProcess::ForgetInactive(uint64_t end_ns) {
  for (auto at = streams_.begin(); at != streams_.end();) {
    GpuStream& stream = at->second;
    const bool inactive = stream.last_ns() + kInactiveNs < end_ns && stream.last_ns() > 0;
    if (!inactive) {
      ++at;
      continue;
    }
    if (stream.busy()) {  // what was launched may run still
      stats_->nr_inactive_streams++;
      EndActive(stream.device(), end_ns, false);
      doubts_activity_ = true;
      if (silent_.size() >= kMaxStreams)
        knows_activity_ = false;
      else
        silent_.insert_or_assign(at->first, stream.Idle());
    }
    if (stream.blocking() || stream.destroyed()) {
      at = streams_.erase(at);
      continue;
    }
    KernelSpan none;  // if it is used again it must be known that nobody waits for it unasked
    stream.Wait(UINT64_MAX, end_ns, &none);
    ++at;
  }
}

// Where it is not known when something was in flight, neither is when nothing was.
void GpuProcess::TakeNoWork(NoWork* no_work, uint64_t end_ns, GpuRow* row) const {
  no_work->TakeSlot(
      end_ns,
      [this](int32_t tid) {
        const auto found = threads_.find(tid);
        return found == threads_.end() ? nullptr : &found->second.line;
      },
      row);
  row->any |= row->values[kGpuNoWork] > 0;
  if (row->unmeasured >> kGpuActiveNs & 1) row->unmeasured |= kOfLaunches;
  if (!has_turns_) row->unmeasured |= kOfTurns;
}

GpuRow GpuProcess::TakeSlot(uint64_t end_ns, std::vector<GpuPart>* parts) {
  ForgetInactive(end_ns);
  GpuRow row;
  row.values = {memory_.bytes(), activity_.Take(end_ns), std::exchange(nr_launches_, 0)};
  if (!memory_.complete()) row.unmeasured |= 1u << kGpuMemBytes;
  const bool knows_launches = knows_launches_ && !doubts_launches_ && !lossy_in_slot_;
  if (!knows_launches) row.unmeasured |= 1u << kGpuLaunches;
  if (!knows_launches || !knows_activity_ || doubts_activity_) row.unmeasured |= 1u << kGpuActiveNs;
  lossy_in_slot_ = lossy_until_ns_ > end_ns;
  row.any = std::exchange(any_, false) || row.values[kGpuActiveNs] > 0;
  const uint32_t unmeasured = row.unmeasured;
  TakeNoWork(&no_work_, end_ns, &row);
  for (const auto& [device, bytes] : memory_.bytes_by_device()) UseOf(device);
  for (auto& [device, use] : uses_) {
    // Which GPU it is has become known while it was active.
    if (const int32_t gpu = GpuOf(device); use.activity.active() && gpu != use.gpu) {
      machine_->End(use.gpu, end_ns);
      machine_->Begin(gpu, end_ns);
      use.gpu = gpu;
    }
    if (use.was_told_nowhere && GpuOf(device) != kUnknownGpu) {
      TellBalance(device, end_ns);
      if (!use.was_told_nowhere) balances_->back().again = true;
    }
    auto held = memory_.bytes_by_device().find(device);
    const uint64_t bytes = held == memory_.bytes_by_device().end() ? 0 : held->second;
    GpuPart part = {key_, {}, device, GpuOf(device), {}};
    part.row.values = {bytes, use.activity.Take(end_ns), std::exchange(use.nr_launches, 0)};
    part.row.unmeasured = unmeasured;
    const bool changed = std::exchange(use.told_bytes, bytes) != bytes;
    part.row.any = changed || part.row.values[kGpuActiveNs] > 0 || part.row.values[kGpuLaunches] > 0;
    TakeNoWork(&use.no_work, end_ns, &part.row);
    parts->push_back(part);
  }
  std::erase_if(touched_, [&](int32_t tid) {
    Thread& thread = threads_.at(tid);
    thread.is_touched = !thread.line.Drop(end_ns);
    return !thread.is_touched;
  });
  return row;
}

void GpuProcess::End(uint64_t ts_ns, KernelsEnd how) {
  any_ = true;
  call_begun_ns_ = ts_ns;
  for (auto& [key, stream] : streams_) Wait(&stream, UINT64_MAX, ts_ns, how);
  streams_.clear();
  for (auto& [device, use] : uses_)
    if (use.activity.active()) machine_->End(use.gpu, ts_ns);
  memory_.End(ts_ns);
  std::vector<int32_t> devices = memory_.TakeTouched();
  if (!memory_.complete()) {  // what was told before may have been too much
    devices.clear();
    for (const auto& [device, bytes] : memory_.bytes_by_device()) devices.push_back(device);
  }
  for (int32_t device : devices) TellBalance(device, ts_ns, true);
}

}  // namespace slotscope
