// SHA-256 (FIPS 180-4), to compare with digests of the reference data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace parbuckle {

class Sha256 {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      block_[filled_++] = static_cast<unsigned char>(byte);
      ++total_;
      if (filled_ == block_.size()) {
        absorb();
      }
    }
  }

  std::string hex() {
    const std::uint64_t bits = total_ * 8;
    add("\x80");
    while (filled_ != 56) {
      add(std::string_view("\0", 1));
    }
    std::string length;
    for (int shift = 56; shift >= 0; shift -= 8) {
      length.push_back(static_cast<char>(bits >> shift & 0xFFU));
    }
    add(length);
    std::string out;
    for (const std::uint32_t word : state_) {
      for (int shift = 28; shift >= 0; shift -= 4) {
        out.push_back("0123456789abcdef"[word >> shift & 0xFU]);
      }
    }
    return out;
  }

 private:
  static std::uint32_t rotate(std::uint32_t x, unsigned by) { return x >> by | x << (32 - by); }

  void absorb() {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{block_[4 * i]} << 24U | std::uint32_t{block_[4 * i + 1]} << 16U |
             std::uint32_t{block_[4 * i + 2]} << 8U | std::uint32_t{block_[4 * i + 3]};
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3U;
      const std::uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10U;
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    std::array<std::uint32_t, 8> s = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
      const std::uint32_t t1 = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
      const std::uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
      const std::uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < s.size(); ++i) {
      state_[i] += s[i];
    }
    filled_ = 0;
  }

  static constexpr std::array<std::uint32_t, 64> constants = {
      0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U,
      0xab1c5ed5U, 0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU,
      0x9bdc06a7U, 0xc19bf174U, 0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU,
      0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU, 0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U,
      0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U, 0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU,
      0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U, 0xa2bfe8a1U, 0xa81a664bU,
      0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U, 0x19a4c116U,
      0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
      0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U,
      0xc67178f2U};
  std::array<std::uint32_t, 8> state_ = {0x6a09e667U,
                                         0xbb67ae85U,
                                         0x3c6ef372U,
                                         0xa54ff53aU,
                                         0x510e527fU,
                                         0x9b05688cU,
                                         0x1f83d9abU,
                                         0x5be0cd19U};
  std::array<unsigned char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace parbuckle
