// SPDX-License-Identifier: MIT
// The way of the blocks: reader thread -> merge thread (-> raw writer thread) -> reader thread. All
// memory there is between them. An empty block is the one that was emptied last: it is still in the
// cache, and the others cost no memory before they are needed.
#pragma once

#include <boost/lockfree/spsc_queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/wakeup.h"
#include "ring/item.h"

namespace slotscope {

class BlockQueue {
 public:
  explicit BlockQueue(size_t nr_blocks) : empty_(nr_blocks), filled_(nr_blocks) {
    for (size_t i = 0; i < nr_blocks; i++) {
      blocks_.push_back(std::unique_ptr<Block>(new Block));  // not touched: a page costs when it is used
      empty_.bounded_push(blocks_.back().get());
    }
  }

  // Reader. An empty block to fill, or null: the others are behind.
  Block* TakeEmpty() {
    Block* block = nullptr;
    if (empty_.pop(block)) block->Clear();
    return block;
  }
  // Reader. There is room: no more blocks exist than it holds.
  void PutFilled(Block* block) {
    filled_.push(block);
    filled_wakeup_.Notify();
  }

  // Merge. Null: nothing to do.
  Block* TakeFilled() {
    Block* block = nullptr;
    filled_.pop(block);
    return block;
  }
  // Merge. Notified when there is a filled block, and by whoever wants the merge to look around.
  Wakeup& filled_wakeup() { return filled_wakeup_; }
  // Merge, or the raw writer if there is one: whoever is the last to need it.
  void PutEmpty(Block* block) { empty_.bounded_push(block); }

  size_t nr_blocks() const { return blocks_.size(); }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;  // all there are; each is in one queue or in use
  boost::lockfree::stack<Block*> empty_;
  boost::lockfree::spsc_queue<Block*> filled_;
  Wakeup filled_wakeup_;
};

}  // namespace slotscope
