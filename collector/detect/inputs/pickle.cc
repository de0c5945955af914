// SPDX-License-Identifier: MIT
#include "detect/inputs/pickle.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace slotscope {
namespace {

using Index = ValueTree::Index;

constexpr Index kNone = std::numeric_limits<Index>::max();
// Our own limits: a dump of 20 000 entries has some 500 000 values.
constexpr size_t kMaxPickled = 8u << 20;
constexpr size_t kMaxMemo = 16u << 20;
// Of who jumps ahead in the memo.
constexpr size_t kMaxMemoGap = 4096;

// As Python's pickletools names them.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNoneOp = 'N',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kEmptyDict = '}',
  kBinFloat = 'G',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Those by which a pickle could call something. All others outside the table are refused as well.
const char* DangerOf(uint8_t opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x81:
      return "NEWOBJ";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    default:
      return nullptr;
  }
}

bool IsOfPythonOnly(uint8_t opcode) {
  switch (opcode) {
    case kAppend:
    case kSetItem:
    case kTuple:
    case kEmptyTuple:
    case kTuple1:
    case kTuple3:
    case kShortBinUnicode:
    case kBinUnicode8:
    case kMemoize:
    case kFrame:
      return true;
    default:
      return false;
  }
}

class Reader {
 public:
  Reader(std::string_view bytes, ValueTree* tree) : bytes_(bytes), tree_(tree) {}

  Status Run(Index* root) {
    if (bytes_.empty()) return Bad("the file is empty");
    while (at_ < bytes_.size()) {
      opcode_at_ = at_;
      const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
      if (opcode == kStop) return Stop(root);
      if (!Step(opcode)) return Bad(error_);
      if (tree_->size() > kMaxPickled || stack_.size() + marks_.size() > kMaxPickled)
        return Bad("it is too large");
    }
    opcode_at_ = at_;
    return Bad("it ends too early; is it still being written?");
  }

 private:
  Status Bad(const std::string& text) const {
    return {Exit::kBadInput,
            fmt::format("not a pickle of plain data: at byte {}: {}", opcode_at_, text)};
  }
  bool Fail(std::string text) {
    error_ = std::move(text);
    return false;
  }

  Status Stop(Index* root) {
    if (protocol_ == 0) return Bad("it does not begin with its protocol");
    if (stack_.size() != 1 || !marks_.empty()) return Bad("it ends with more or less than one value");
    if (at_ != bytes_.size()) return Bad("something follows its end");
    *root = stack_[0];
    return {};
  }

  bool Take(size_t nr, std::string_view* taken) {
    if (bytes_.size() - at_ < nr) return Fail("it ends too early; is it still being written?");
    *taken = bytes_.substr(at_, nr);
    at_ += nr;
    return true;
  }
  // Little endian, as all of them but floats.
  bool TakeUnsigned(size_t nr, uint64_t* value) {
    std::string_view taken;
    if (!Take(nr, &taken)) return false;
    *value = 0;
    for (size_t i = 0; i < nr; i++) *value |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
    return true;
  }

  bool Push(Index value) {
    stack_.push_back(value);
    return true;
  }
  // What lies above the last mark; the mark is gone then.
  bool PopToMark(std::span<const Index>* items) {
    if (marks_.empty()) return Fail("there is no mark");
    const size_t mark = marks_.back();
    marks_.pop_back();
    if (mark > stack_.size()) return Fail("what was behind a mark is gone");
    items_.assign(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    *items = items_;
    return true;
  }
  // May not reach below a mark.
  bool Pop(Index* value) {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
      return Fail("there is no value");
    *value = stack_.back();
    stack_.pop_back();
    return true;
  }
  bool Top(Index* value, ValueTree::Kind kind, const char* what) {
    if (stack_.empty() || tree_->kind(stack_.back()) != kind)
      return Fail(fmt::format("there is no {}", what));
    *value = stack_.back();
    return true;
  }
  bool PushTuple(std::span<const Index> items) {
    const Index tuple = tree_->AddList();
    tree_->Append(tuple, items);
    return Push(tuple);
  }

  bool Put(uint64_t id) {
    if (stack_.empty()) return Fail("there is no value to remember");
    if (id >= kMaxMemo || id > memo_.size() + kMaxMemoGap) return Fail("a memo id is too large");
    if (id >= memo_.size()) memo_.resize(id + 1, kNone);
    memo_[id] = stack_.back();
    return true;
  }
  bool Get(uint64_t id) {
    if (id >= memo_.size() || memo_[id] == kNone)
      return Fail(fmt::format("memo id {} has not been set", id));
    return Push(memo_[id]);
  }

  bool Step(uint8_t opcode) {
    if ((protocol_ == 0) != (opcode == kProto))
      return Fail(protocol_ ? "it says its protocol twice" : "it does not begin with its protocol");
    if (protocol_ == 2 && IsOfPythonOnly(opcode))
      return Fail(fmt::format("opcode 0x{:02x} is not one that the flight recorder writes", opcode));
    switch (opcode) {
      case kProto:
        return Proto();
      case kFrame: {
        uint64_t length;
        return TakeUnsigned(8, &length);
      }
      case kNoneOp:
        return Push(tree_->AddNull());
      case kNewTrue:
      case kNewFalse:
        return Push(tree_->AddBool(opcode == kNewTrue));
      case kBinInt1:
        return Unsigned(1);
      case kBinInt2:
        return Unsigned(2);
      case kBinInt:
        return Int();
      case kLong1:
        return Long();
      case kBinFloat:
        return Float();
      case kBinUnicode:
        return Text(4);
      case kShortBinUnicode:
        return Text(1);
      case kBinUnicode8:
        return Text(8);
      default:
        return StepContainer(opcode);
    }
  }

  bool StepContainer(uint8_t opcode) {
    uint64_t id;
    std::span<const Index> items;
    Index container, key, value;
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kEmptyList:
        return Push(tree_->AddList());
      case kEmptyDict:
        return Push(tree_->AddDict());
      case kEmptyTuple:
        return PushTuple({});
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return Tuple(opcode - kTuple1 + 1u);
      case kTuple:
        return PopToMark(&items) && PushTuple(items);
      case kAppends:
        if (!PopToMark(&items) || !Top(&container, ValueTree::Kind::kList, "list to append to"))
          return false;
        tree_->Append(container, items);
        return true;
      case kAppend:
        if (!Pop(&value) || !Top(&container, ValueTree::Kind::kList, "list to append to")) return false;
        tree_->Append(container, std::span(&value, 1));
        return true;
      case kSetItems:
        if (!PopToMark(&items) || !Top(&container, ValueTree::Kind::kDict, "dict to add to"))
          return false;
        if (items.size() % 2) return Fail("a key has no value");
        tree_->Append(container, items);
        return true;
      case kSetItem:
        if (!Pop(&value) || !Pop(&key) || !Top(&container, ValueTree::Kind::kDict, "dict to add to"))
          return false;
        items_ = {key, value};
        tree_->Append(container, items_);
        return true;
      case kBinPut:
        return TakeUnsigned(1, &id) && Put(id);
      case kLongBinPut:
        return TakeUnsigned(4, &id) && Put(id);
      case kMemoize:
        return Put(memo_.size());
      case kBinGet:
        return TakeUnsigned(1, &id) && Get(id);
      case kLongBinGet:
        return TakeUnsigned(4, &id) && Get(id);
      default:
        if (const char* name = DangerOf(opcode))
          return Fail(fmt::format("opcode {} is refused: reading data executes nothing", name));
        return Fail(fmt::format("opcode 0x{:02x} is not known here", opcode));
    }
  }

  bool Proto() {
    uint64_t protocol;
    if (!TakeUnsigned(1, &protocol)) return false;
    if (protocol < 2 || protocol > 5) return Fail(fmt::format("protocol {} is not read", protocol));
    protocol_ = static_cast<int>(protocol);
    return true;
  }

  bool Unsigned(size_t nr) {
    uint64_t value;
    return TakeUnsigned(nr, &value) && Push(tree_->AddInteger(static_cast<int64_t>(value)));
  }

  bool Int() {
    uint64_t value;
    return TakeUnsigned(4, &value) && Push(tree_->AddInteger(static_cast<int32_t>(value)));
  }

  // Two's complement, of any length up to what a machine has.
  bool Long() {
    uint64_t nr, value;
    if (!TakeUnsigned(1, &nr)) return false;
    if (nr > 8) return Fail("an integer is too large");
    if (!TakeUnsigned(nr, &value)) return false;
    if (nr > 0 && nr < 8 && value >> (8 * nr - 1)) value |= ~uint64_t{0} << (8 * nr);
    return Push(tree_->AddInteger(static_cast<int64_t>(value)));
  }

  bool Float() {
    std::string_view taken;
    if (!Take(8, &taken)) return false;
    uint64_t bits = 0;
    for (char c : taken) bits = bits << 8 | static_cast<uint8_t>(c);
    return Push(tree_->AddReal(std::bit_cast<double>(bits)));
  }

  bool Text(size_t length_size) {
    uint64_t length;
    std::string_view text;
    if (!TakeUnsigned(length_size, &length)) return false;
    if (length > bytes_.size()) return Fail("a text is longer than the file");
    return Take(length, &text) && Push(tree_->AddText(text));
  }

  bool Tuple(size_t nr) {
    Index items[3];
    for (size_t i = nr; i-- > 0;)
      if (!Pop(&items[i])) return false;
    return PushTuple({items, nr});
  }

  std::string_view bytes_;
  ValueTree* tree_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  int protocol_ = 0;
  std::vector<Index> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<Index> memo_;
  std::vector<Index> items_;
  std::string error_;
};

}  // namespace

Status ParsePickle(std::string_view bytes, ValueTree* tree, ValueTree::Index* root) {
  return Reader(bytes, tree).Run(root);
}

}  // namespace slotscope
