"""商店的工具：带类型的函数，模型会读取它们的文档字符串。"""

import segue

ORDERS = {17: "已发货", 18: "已打包"}


@segue.tool(read_only=True, keywords=["订单", "包裹"])
def lookup(order_id: int) -> dict[str, object]:
    """查询订单。"""
    if order_id not in ORDERS:
        raise ValueError(f"没有订单 {order_id}；现有订单：{'、'.join(map(str, ORDERS))}。")
    return {"order_id": order_id, "status": ORDERS[order_id], "summary": f"订单 {order_id} {ORDERS[order_id]}。"}


@segue.tool(needs_approval=True, keywords=["退款"])
def refund(order_id: int) -> str:
    """为订单退款；须经人工批准。"""
    return f"订单 {order_id} 已退款。"
