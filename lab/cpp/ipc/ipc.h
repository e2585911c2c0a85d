// Channels of messages between processes, as System V message queues: what XSched uses of its
// library `ipc`, with the same names. A key stands for a queue, whose receiver makes it.

#pragma once

#include <sys/ipc.h>
#include <sys/msg.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace ipc {

using ChannelKey = int32_t;
enum class NodeType { kSender, kReceiver };

class Message {
 public:
  const void *Data() const { return bytes_; }

 private:
  friend class Node;
  // As much as the kernel takes where nobody has set kernel.msgmax.
  static constexpr size_t kMost = 8192;
  long type_;
  char bytes_[kMost];
};

class Channel {
 public:
  static void Remove(ChannelKey key) { msgctl(msgget(of_system(key), 0), IPC_RMID, nullptr); }

 private:
  friend class Node;
  // Keys are numbers of processes, below 2^22.
  static key_t of_system(ChannelKey key) { return 0x58000000 | key; }
};

class Node {
 public:
  Node(ChannelKey key, NodeType type) : key_(key), is_receiver_(type == NodeType::kReceiver) {
    // A receiver that was killed has left its queue behind.
    if (is_receiver_) Channel::Remove(key);
    id_ = msgget(Channel::of_system(key), is_receiver_ ? IPC_CREAT | 0666 : 0);
  }

  // Waits while the queue is full. A message to a client that has gone is as good as delivered: the
  // server would end, if it were told.
  bool Send(const void *data, size_t size) const {
    if (size > Message::kMost) return false;
    Message message;
    message.type_ = 1;
    memcpy(message.bytes_, data, size);
    while (msgsnd(id_, &message, size, 0) < 0) {
      if (errno != EINTR) return key_ != kServer && is_gone();
    }
    return true;
  }

  // Waits for a message; nothing once the queue has been removed.
  std::unique_ptr<Message> Receive() const {
    std::unique_ptr<Message> message(new Message);
    while (msgrcv(id_, message.get(), Message::kMost, 0, 0) < 0) {
      if (errno != EINTR) return nullptr;
    }
    return message;
  }

  // A sender leaves the queue to its receiver.
  void Remove() const {
    if (is_receiver_) msgctl(id_, IPC_RMID, nullptr);
  }

 private:
  static constexpr ChannelKey kServer = 1;
  static bool is_gone() { return errno == EIDRM || errno == EINVAL; }

  ChannelKey key_;
  bool is_receiver_;
  int id_;
};

}  // namespace ipc
