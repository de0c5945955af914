// SPDX-License-Identifier: MIT
// What other threads than the reader have to say: the reader puts it between the rings' items.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ring/item.h"

namespace slotscope {

class ItemQueue {
 public:
  struct Entry {
    ItemKind kind;
    uint64_t begin_ns;
    std::vector<std::byte> payload;  // its size a multiple of kItemAlign
  };

  // A block has room for many of them.
  static constexpr size_t kMaxPayload = Block::kCapacity / 16;
  static constexpr size_t kMaxNote = 4096;

  // All of it on any thread. Of now; `payload` is filled up with zeros. What is larger than kMaxPayload
  // is dropped: nothing that we say is.
  void Put(ItemKind kind, std::span<const std::byte> payload) {
    if (payload.size() > kMaxPayload) return;
    Entry entry = {kind, MonotonicNs(), {payload.begin(), payload.end()}};
    entry.payload.resize((payload.size() + kItemAlign - 1) / kItemAlign * kItemAlign);
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  // Text that belongs beside the rows of about now; it may have names in it that others chose, and is
  // cut.
  void PutNote(std::string text) {
    if (text.size() > kMaxNote) text.replace(kMaxNote, text.npos, "... (cut)");
    text.push_back('\0');
    Put(ItemKind::kNote, std::as_bytes(std::span(text)));
  }
  // Slots are so long from about now on: 1 ns to kMaxSlotNs.
  void PutSlotLength(uint64_t slot_ns) {
    Put(ItemKind::kSlotLength, std::as_bytes(std::span(&slot_ns, 1)));
  }
  // Why processes wait is to be said from about now on, or not any more.
  void PutWaitCauses(bool told) {
    const uint64_t value = told;
    Put(ItemKind::kWaitCauses, std::as_bytes(std::span(&value, 1)));
  }
  // Done by the reader each time before it drains the rings. To be set before the reader starts, by one.
  void SetPrompt(std::function<void()> prompt) { prompt_ = std::move(prompt); }
  void Prompt() {
    if (prompt_) prompt_();
  }
  // Fills in what the source does not know of: losses of CUDA calls, and whose they are that have been
  // lost since it was asked last. Asked often. As SetPrompt().
  using LossesFn = std::function<void(SourceLosses* losses, std::vector<LostCalls>* lost)>;
  void SetLosses(LossesFn losses) { add_losses_ = std::move(losses); }
  void AddLosses(SourceLosses* losses, std::vector<LostCalls>* lost) const {
    if (add_losses_) add_losses_(losses, lost);
  }
  std::vector<Entry> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(entries_, {});
  }

 private:
  std::function<void()> prompt_;
  LossesFn add_losses_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace slotscope
