// SPDX-License-Identifier: MIT
// Memory that follows what is needed, and not the largest burst ever.
#pragma once

#include <cstddef>
#include <vector>

namespace slotscope {

// An empty vector or string, or one of values that say nothing. `most`: elements that were needed
// lately: one that has grown to them by doubling stays.
template <typename Container>
void FreeIfTooLarge(Container* spare, size_t most) {
  if (spare->capacity() > 2 * most + 16) Container().swap(*spare);
}

// Vectors whose elements have a number (a process's id) become longer in such steps, and shorter when
// they have several of them too many.
constexpr size_t kTrimStep = 2048;

// At most `size` elements, and room for no more.
template <typename T>
void CutTo(std::vector<T>* all, size_t size) {
  if (all->size() > size) all->resize(size);
  all->shrink_to_fit();
}

// Elements from `size` on are nobody's any more.
template <typename T>
void ShrinkTo(std::vector<T>* all, size_t size) {
  if (all->capacity() > 2 * (size + kTrimStep)) CutTo(all, size);
}

// Makes room for element `index` of a vector that only grows. In steps, and not to twice the size: that
// would be as much again as the largest burst ever needed.
template <typename T>
void GrowTo(std::vector<T>* all, size_t index) {
  if (index < all->size()) return;
  all->reserve((index / kTrimStep + 1) * kTrimStep);
  all->resize(index + 1);
}

}  // namespace slotscope
